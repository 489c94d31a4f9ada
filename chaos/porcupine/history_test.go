package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lines writes a history of one lock, with moments in ms.
type lines struct {
	text   strings.Builder
	number int
}

func (l *lines) add(format string, arguments ...any) {
	fmt.Fprintf(&l.text, format+"\n", arguments...)
}

// did adds a call and its answer, unless that is "".
func (l *lines) did(holder, request string, call, ret int64, answer string) int {
	l.number++
	l.add(`{"Called":{"at":%d,"client":"c","number":%d,"lock":"l","holder":"%s","request":%s}}`, call*ms, l.number, holder, request)
	if answer != "" {
		l.add(`{"Answered":{"at":%d,"client":"c","number":%d,"answer":%s}}`, ret*ms, l.number, answer)
	}
	return l.number
}

func (l *lines) vouched(number int, at, until int64) {
	l.add(`{"Vouched":{"at":%d,"client":"c","number":%d,"until":%d}}`, at*ms, number, until*ms)
}

func (l *lines) troubled(began, ended int64, reach string) {
	l.add(`{"Troubled":{"began":%d,"ended":%d,"what":"","reach":%s}}`, began*ms, ended*ms, reach)
}

func (l *lines) judge(t *testing.T, excuseFailovers bool) verdict {
	t.Helper()
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "crew-0.jsonl"), []byte(l.text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := read(directory)
	if err != nil {
		t.Fatal(err)
	}
	return judge(h, excuseFailovers, time.Minute)
}

const (
	acquire  = `{"Acquire":{"side":"Plain","limit":0,"beside":[],"lease_ms":100,"wait_ms":null,"fenced":false,"by":"Acquire"}}`
	guarded  = `{"Guard":{"side":"Plain","limit":0,"lease_ms":100,"fenced":false}}`
	renew    = `{"Renew":{"lease_ms":100}}`
	release  = `{"Release":{"side":"Plain","all":false}}`
	read1    = `{"Acquire":{"side":"Read","limit":0,"beside":[],"lease_ms":100,"wait_ms":null,"fenced":false,"by":"Acquire"}}`
	granted  = `{"Granted":{"token":null}}`
	isGone   = `{"Released":1}`
	isHeld   = `{"Released":0}`
	nothing  = `{"Released":null}`
	unknown  = `{"Unknown":"reset"}`
	failover = `{"Failover":{"server":"a","is_covered":false}}`
	covered  = `{"Failover":{"server":"a","is_covered":true}}`
	deleted  = `{"Locks":{"locks":["l"],"takes_counters":false,"takes_answers":false}}`
	another  = `{"Locks":{"locks":["m"],"takes_counters":false,"takes_answers":false}}`
	flushed  = `{"Locks":{"locks":[],"takes_counters":true,"takes_answers":true}}`
)

func TestHistories(t *testing.T) {
	for _, c := range []struct {
		name    string
		verdict string
		judged  int
		write   func(*lines)
	}{
		{"two holders", "ILLEGAL", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("b", acquire, 50, 51, granted)
		}},
		{"a release without an answer", "ok", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("a", release, 40, 0, "")
			l.did("b", acquire, 50, 51, granted)
		}},
		{"a release that may have been done", "ok", 3, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("a", release, 40, 45, unknown)
			l.did("b", acquire, 50, 51, granted)
			l.did("a", release, 52, 53, nothing)
		}},
		{"that release was not sent yet", "ILLEGAL", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("a", release, 60, 0, "")
			l.did("b", acquire, 50, 51, granted)
		}},
		{"an error did nothing", "ILLEGAL", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("a", release, 40, 41, `{"Failed":"NOREPLICAS"}`)
			l.did("b", acquire, 50, 51, granted)
		}},
		{"a grant without an answer is no grant that counts", "ok", 1, func(l *lines) {
			l.did("a", acquire, 0, 0, "")
			l.did("b", acquire, 50, 51, granted)
			l.did("a", release, 52, 53, isGone)
		}},
		{"nor is it gone for good", "ok", 3, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("a", acquire, 2, 0, "")
			l.did("a", release, 3, 4, isGone)
			l.did("a", release, 5, 6, isGone)
		}},
		{"a renewal without an answer ends no hold before its lease", "ILLEGAL", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("a", renew, 2, 0, "")
			l.did("b", acquire, 50, 51, granted)
		}},
		{"an error after a flush is no step", "ok", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("a", acquire, 2, 3, `{"Failed":"NOREPLICAS"}`)
			l.did("a", release, 4, 5, isGone)
		}},
		{"a re-entry without an answer may have been done", "ok", 3, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("a", acquire, 2, 0, "")
			l.did("a", release, 52, 53, isHeld)
			l.did("a", release, 54, 55, isGone)
		}},
		{"a re-entry is refused", "ILLEGAL", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("a", acquire, 2, 3, `{"Refused":{"left_ms":90}}`)
		}},
		{"a renewal is denied", "ILLEGAL", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("a", renew, 2, 3, `{"Renewed":false}`)
		}},
		{"a guard", "ILLEGAL", 2, func(l *lines) {
			guard := l.did("a", guarded, 0, 1, granted)
			l.vouched(guard, 2, 100)
			l.vouched(guard, 90, 190)
			l.did("b", acquire, 150, 151, granted)
		}},
		{"what a guard says last counts", "ok", 2, func(l *lines) {
			guard := l.did("a", guarded, 0, 1, granted)
			l.vouched(guard, 2, 180)
			l.vouched(guard, 90, 140)
			l.did("b", acquire, 150, 151, granted)
		}},
		{"a guard that renews what another client has", "ILLEGAL", 2, func(l *lines) {
			guard := l.did("a", guarded, 0, 1, granted)
			l.vouched(guard, 2, 100)
			l.troubled(30, 40, deleted)
			l.did("b", acquire, 50, 51, granted)
			l.vouched(guard, 70, 160)
		}},
		{"a guard that has not heard yet that its lock was deleted", "ok", 2, func(l *lines) {
			guard := l.did("a", guarded, 0, 1, granted)
			l.vouched(guard, 2, 100)
			l.troubled(30, 40, deleted)
			l.did("b", acquire, 50, 51, granted)
			l.vouched(guard, 70, 98)
		}},
		{"a guard that has ended", "ok", 2, func(l *lines) {
			guard := l.did("a", guarded, 0, 1, granted)
			l.vouched(guard, 2, 100)
			l.add(`{"Ended":{"at":%d,"client":"c","number":%d}}`, 40*ms, guard)
			l.did("a", release, 41, 60, isGone)
			l.did("b", acquire, 50, 51, granted)
		}},
		{"a deleted lock", "ok", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.troubled(30, 40, deleted)
			l.did("b", acquire, 50, 51, granted)
		}},
		{"another lock was deleted", "ILLEGAL", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.troubled(30, 40, another)
			l.did("b", acquire, 50, 51, granted)
		}},
		{"a flush", "ok", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.troubled(30, 40, flushed)
			l.did("b", acquire, 50, 51, granted)
			l.did("a", release, 52, 53, nothing)
		}},
		{"after a flush two holders are two", "ILLEGAL", 3, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.troubled(30, 40, flushed)
			l.did("b", acquire, 50, 51, granted)
			l.did("c", acquire, 60, 61, granted)
		}},
		{"a guard that renews after a flush holds the lock", "ILLEGAL", 2, func(l *lines) {
			guard := l.did("a", guarded, 0, 1, granted)
			l.vouched(guard, 2, 100)
			l.troubled(30, 40, flushed)
			l.vouched(guard, 70, 160)
			l.did("b", acquire, 80, 81, granted)
		}},
		{"a guard that has not heard of a flush does not", "ok", 2, func(l *lines) {
			guard := l.did("a", guarded, 0, 1, granted)
			l.vouched(guard, 2, 100)
			l.troubled(30, 40, flushed)
			l.vouched(guard, 70, 101)
			l.did("b", acquire, 80, 81, granted)
		}},
		{"a client that renews after a flush holds the lock", "ILLEGAL", 3, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.troubled(30, 40, flushed)
			l.did("a", renew, 50, 51, `{"Renewed":true}`)
			l.did("b", acquire, 80, 81, granted)
		}},
		{"a grant during a flush proves nothing", "ok", 1, func(l *lines) {
			l.did("a", acquire, 20, 45, granted)
			l.troubled(30, 40, flushed)
			l.did("b", acquire, 50, 51, granted)
		}},
		{"a clock that was set", "ok", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.troubled(30, 40, `{"ClockStep":{"server":"a","by_ms":60}}`)
			l.did("b", acquire, 50, 51, granted)
		}},
		{"a failover", "ok", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.troubled(30, 40, failover)
			l.did("b", acquire, 50, 51, granted)
		}},
		{"a failover that a grace covers", "ILLEGAL", 2, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.troubled(30, 40, covered)
			l.did("b", acquire, 50, 51, granted)
		}},
		{"readers are not judged", "nothing to judge", 0, func(l *lines) {
			l.did("a", acquire, 0, 1, granted)
			l.did("b", read1, 50, 51, granted)
		}},
	} {
		var l lines
		c.write(&l)
		if v := l.judge(t, true); v.word() != c.verdict || v.judged != c.judged {
			t.Errorf("%s: %v, not %s of %d", c.name, v, c.verdict, c.judged)
		} else if len(v.whys) != v.illegal {
			t.Errorf("%s: %q", c.name, v.whys)
		}
	}
}

func TestAFailoverIsNotExcusedIfItIsNotToBe(t *testing.T) {
	var l lines
	l.did("a", acquire, 0, 1, granted)
	l.troubled(30, 40, failover)
	l.did("b", acquire, 50, 51, granted)
	if v := l.judge(t, false); v.word() != "ILLEGAL" {
		t.Error(v)
	}
}

func TestTheExampleOfThePageIsRight(t *testing.T) {
	page, err := os.ReadFile("../../docs/proof/histories.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json only-shown\n")
	example, _, _ := strings.Cut(rest, "```")
	var l lines
	l.text.WriteString(example)
	if v := l.judge(t, true); v.word() != "ok" || v.judged != 2 {
		t.Error(v)
	}
}
