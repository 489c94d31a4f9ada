package rlock

import (
	"bufio"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestALeaseIsGuaranteedFromBeforeItsRequest(t *testing.T) {
	before := time.Now()
	for _, row := range []struct{ length, vouched time.Duration }{
		{30_000 * ms, 29_698 * ms}, {1_000 * ms, 988 * ms}, {100 * ms, 97 * ms}, {2 * ms, 0}, {0, 0},
	} {
		if got := (leased{before, row.length}).until().Sub(before); got != row.vouched {
			t.Errorf("%v: %v", row.length, got)
		}
	}
}

func TestALeaseIsRenewedWhenAThirdIsOver(t *testing.T) {
	began := time.Now()
	for _, row := range []struct{ running, wanted, since, due time.Duration }{
		{30_000 * ms, 30_000 * ms, 0, 10_000 * ms},
		{30_000 * ms, 3_000 * ms, 0, 1_000 * ms},
		{3_000 * ms, 30_000 * ms, 0, 50 * ms},           // granted for a short time: renewed soon
		{3_000 * ms, 30_000 * ms, 990 * ms, 1_000 * ms}, // but never later than at a third
		{300 * ms, 300 * ms, 5 * ms, 100 * ms},
	} {
		if got := (leased{began, row.running}).firstDue(row.wanted, began.Add(row.since)).Sub(began); got != row.due {
			t.Errorf("%+v: %v", row, got)
		}
	}
}

func TestRenewalsThatFailAreTriedAgain(t *testing.T) {
	for _, row := range []struct {
		failures    int
		left, again time.Duration
	}{
		{0, 20_000 * ms, 20 * ms}, {1, 20_000 * ms, 40 * ms}, {5, 20_000 * ms, 640 * ms}, {9, 20_000 * ms, 1_000 * ms},
		{5, 800 * ms, 100 * ms}, {99, 80 * ms, 20 * ms}, {3, -ms, 20 * ms},
	} {
		if got := retryAfter(row.failures, row.left); got != row.again {
			t.Errorf("%+v: %v", row, got)
		}
	}
	if got := answerLimit(600*ms, 3_000*ms); got != 100*ms {
		t.Error(got)
	}
}

func TestAGrantIsWorkedUnderOnlyIfEnoughIsLeft(t *testing.T) {
	for _, row := range []struct {
		left, asked, length time.Duration
		fixed, enough       bool
	}{
		{1_000 * ms, 3_000 * ms, 30_000 * ms, false, true}, {999 * ms, 3_000 * ms, 30_000 * ms, false, false},
		{0, 3_000 * ms, 30_000 * ms, false, false},
		{900 * ms, 1_000 * ms, 1_000 * ms, true, true}, {899 * ms, 1_000 * ms, 1_000 * ms, true, false},
	} {
		if isEnough(row.left, row.asked, row.length, row.fixed) != row.enough {
			t.Errorf("%+v", row)
		}
	}
}

func FuzzAnswersThatAreNone(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "*2\r\n$-1\r\n:5\r\n", "-ERR x\r\n", "*-1\r\n", "*999999999\r\n", "$99\r\nx", ":\r\n",
		"\r\n", "$-2\r\n", strings.Repeat("*1\r\n", 99)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes string) {
		from := bufio.NewReader(strings.NewReader(bytes))
		for {
			if _, err := readReply(from, 0); err != nil {
				return // and it has not panicked
			}
		}
	})
}
