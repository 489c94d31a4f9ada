package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// How long the check of one piece of a lock's history may take. Most take a few ms.
const patience = 20 * time.Second

func tokenOf(o *operation) int64 {
	var granted struct{ Token int64 }
	_ = json.Unmarshal(o.value, &granted)
	return granted.Token
}

// verdict is the result for one history.
type verdict struct {
	judged, pieces, illegal, undecided int
	left                               left
	whys                               []string
}

func judge(h *history, excuseFailovers bool, patience time.Duration) verdict {
	v := verdict{left: left{}}
	for _, p := range h.pieces(excuseFailovers, v.left) {
		v.pieces++
		v.judged += p.operations
		switch check(p.steps, patience) {
		case porcupine.Illegal:
			v.illegal++
			v.whys = append(v.whys, why(p))
		case porcupine.Unknown:
			v.undecided++
		}
	}
	return v
}

func check(steps []*step, patience time.Duration) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(modelOf(steps), operationsOf(steps), patience)
}

// why returns the state after the longest order of steps that the model allows, and the first step that it lacks.
func why(p piece) string {
	_, found := porcupine.CheckOperationsVerbose(modelOf(p.steps), operationsOf(p.steps), patience)
	var longest []porcupine.Operation
	for _, order := range found.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	var s state
	done := map[*step]bool{}
	for _, o := range longest {
		s, _ = next(s, o.Input.(*step))
		done[o.Input.(*step)] = true
	}
	rest := slices.DeleteFunc(slices.Clone(p.steps), func(o *step) bool { return done[o] })
	first := slices.MinFunc(rest, func(a, b *step) int { return cmp.Compare(a.ret, b.ret) })
	return fmt.Sprintf("%s: after %d of %d steps: %v; impossible: %v", p.lock, len(longest), len(p.steps), s, first)
}

func (s state) String() string {
	holder := "free"
	if s.holder != "" {
		holder = fmt.Sprintf("%s holds it, %d times (0: not known), until %d", s.holder, s.count, s.end)
	}
	return fmt.Sprintf("%s, last token %d, at %d", holder, s.token, s.now)
}

func (o *step) String() string {
	what := [...]string{"is granted it", "renews it", "releases it", "is refused as no holder", "a command removes it",
		"the clock is set forward", "a replica is promoted"}[o.what]
	text := fmt.Sprintf("%s %s, from %d to %d", o.holder, what, o.call, o.ret)
	switch {
	case o.token != 0:
		text += fmt.Sprintf(", token %d", o.token)
	case o.what == released && o.held:
		text += ", and it is still held"
	}
	return strings.TrimSpace(text)
}

func operationsOf(steps []*step) []porcupine.Operation {
	operations := make([]porcupine.Operation, len(steps))
	for i, s := range steps {
		operations[i] = porcupine.Operation{Input: s, Call: s.call, Return: s.ret}
	}
	return operations
}

func (v verdict) word() string {
	switch {
	case v.illegal > 0:
		return "ILLEGAL"
	case v.undecided > 0:
		return "undecided"
	case v.judged == 0:
		return "nothing to judge"
	}
	return "ok"
}

func (v verdict) String() string {
	text := fmt.Sprintf("%s: %d operations judged in %d pieces, %d illegal, %d undecided", v.word(), v.judged, v.pieces, v.illegal, v.undecided)
	var reasons []string
	for reason, count := range v.left {
		reasons = append(reasons, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(reasons)
	if reasons != nil {
		text += "; left out: " + strings.Join(reasons, ", ")
	}
	return text
}

// historiesIn returns the directories of rounds below a place.
func historiesIn(place string) (found []string) {
	_ = filepath.WalkDir(place, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Name() == "plan.json" {
			found = append(found, filepath.Dir(path))
		}
		return nil
	})
	return found
}

func main() {
	strict := flag.Bool("failovers", false, "judge across failovers that may forget locks, too")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: porcupine [--failovers] DIRECTORY...\n\nJudges the histories that rlock-chaos left there. Exit code: 0 all are ok, 1 one is illegal, 3 one is undecided, 2 no verdict.")
		flag.PrintDefaults()
	}
	flag.Parse()
	sum, count := verdict{left: left{}}, 0
	for _, place := range flag.Args() {
		for _, directory := range historiesIn(place) {
			began := time.Now()
			h, err := read(directory)
			if err != nil {
				fmt.Fprintln(os.Stderr, "porcupine:", err)
				os.Exit(2)
			}
			v := judge(h, !*strict, patience)
			fmt.Printf("%s: %v (%.1f s)\n", directory, v, time.Since(began).Seconds())
			for _, why := range v.whys {
				fmt.Println("  " + why)
			}
			count++
			sum.judged, sum.pieces = sum.judged+v.judged, sum.pieces+v.pieces
			sum.illegal, sum.undecided = sum.illegal+v.illegal, sum.undecided+v.undecided
			for reason, times := range v.left {
				sum.left[reason] += times
			}
		}
	}
	fmt.Printf("%d histories, %v\n", count, sum)
	os.Exit(map[string]int{"ok": 0, "ILLEGAL": 1, "undecided": 3}[sum.word()] + map[bool]int{true: 2}[sum.judged == 0])
}
