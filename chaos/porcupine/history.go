package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// record is what docs/proof/histories.md describes, as far as it is judged here.
type record struct {
	Called *struct {
		At      int64
		Client  string
		Number  uint64
		Lock    string
		Holder  string
		Request request
	}
	Answered *struct {
		At     int64
		Client string
		Number uint64
		Answer json.RawMessage
	}
	Vouched *struct {
		At     int64
		Client string
		Number uint64
		Until  int64
	}
	Ended *struct {
		At     int64
		Client string
		Number uint64
	}
	Troubled *struct {
		Began, Ended int64
		Reach        json.RawMessage
	}
}

type request struct {
	Acquire *struct {
		Side    string
		LeaseMs int64 `json:"lease_ms"`
		By      string
	}
	Guard *struct {
		Side    string
		LeaseMs int64 `json:"lease_ms"`
	}
	Renew *struct {
		LeaseMs int64 `json:"lease_ms"`
	}
	Release *struct {
		Side string
		All  bool
	}
	Answer json.RawMessage
}

type reach struct {
	Locks *struct {
		Locks         []string
		TakesCounters bool `json:"takes_counters"`
	}
	Failover *struct {
		IsCovered bool `json:"is_covered"`
	}
	ClockStep *struct {
		ByMs int64 `json:"by_ms"`
	}
}

const (
	never = math.MaxInt64
	ms    = int64(1e6)
	// Servers count in whole ms, by a clock that does not move while they do one thing.
	roughness = 2 * ms
)

// operation is a call with every later event about it.
type operation struct {
	lock, holder string
	call, ret    int64
	request      request
	// The answer: its kind and its value. "" if there is no answer, or if it leaves open what was done.
	said    string
	value   json.RawMessage
	vouched [][2]int64
	ended   int64
}

type trouble struct {
	began, ended int64
	reach
}

type history struct {
	operations []*operation
	troubles   []trouble
}

func read(directory string) (*history, error) {
	paths, _ := filepath.Glob(filepath.Join(directory, "*.jsonl"))
	h := &history{}
	for _, path := range paths {
		if err := h.readFile(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	slices.SortStableFunc(h.operations, func(a, b *operation) int { return cmp.Compare(a.call, b.call) })
	return h, nil
}

// readFile reads the file of one process. Every event of a call is in the file of the call.
func (h *history) readFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	type key struct {
		client string
		number uint64
	}
	calls := map[key]*operation{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), []byte(`{"Seen"`)) {
			continue
		}
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		switch {
		case r.Called != nil:
			c := r.Called
			o := &operation{lock: c.Lock, holder: c.Holder, call: c.At, ret: never, request: c.Request, ended: never}
			calls[key{c.Client, c.Number}] = o
			h.operations = append(h.operations, o)
		case r.Answered != nil:
			o := calls[key{r.Answered.Client, r.Answered.Number}]
			if o == nil {
				return fmt.Errorf("an answer without its call: %s", lines.Bytes())
			}
			if err := o.answer(r.Answered.At, r.Answered.Answer); err != nil {
				return err
			}
		case r.Vouched != nil:
			if o := calls[key{r.Vouched.Client, r.Vouched.Number}]; o != nil {
				o.vouched = append(o.vouched, [2]int64{r.Vouched.At, r.Vouched.Until})
			}
		case r.Ended != nil:
			if o := calls[key{r.Ended.Client, r.Ended.Number}]; o != nil {
				o.ended = min(o.ended, r.Ended.At)
			}
		case r.Troubled != nil:
			t := trouble{began: r.Troubled.Began, ended: r.Troubled.Ended}
			// A reach that is a bare word ends no hold.
			if r.Troubled.Reach[0] == '{' {
				if err := json.Unmarshal(r.Troubled.Reach, &t.reach); err != nil {
					return err
				}
			}
			h.troubles = append(h.troubles, t)
		}
	}
	return lines.Err()
}

// answer notes the answer. After Unknown, the operation may still be done.
func (o *operation) answer(at int64, raw json.RawMessage) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, &o.said)
	}
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	for said, value := range answer {
		if said != "Unknown" {
			o.said, o.value, o.ret = said, value, at
		}
	}
	return nil
}

func (o *operation) side() string {
	switch r := o.request; {
	case r.Acquire != nil && r.Acquire.By == "Once", r.Answer != nil:
		return "Once"
	case r.Acquire != nil:
		return r.Acquire.Side
	case r.Guard != nil:
		return r.Guard.Side
	case r.Release != nil:
		return r.Release.Side
	}
	return ""
}

func (o *operation) leaseEnd(from int64) int64 {
	switch r := o.request; {
	case r.Acquire != nil:
		return from + r.Acquire.LeaseMs*ms - roughness
	case r.Renew != nil:
		return from + r.Renew.LeaseMs*ms - roughness
	}
	return from
}

// isDenied: the answer says that nothing was done, and that this holder does not hold the lock.
func (o *operation) isDenied() bool {
	value := string(o.value)
	return o.said == "Refused" || o.said == "Renewed" && value == "false" || o.said == "Released" && value == "null"
}

// guarantee is what a guard reports after a grant or a renewal: the server did it between `sent` and `at`, and the lock is
// held until `end`.
type guarantee struct{ sent, at, end int64 }

// guarantees returns one guarantee for each grant or renewal that the guard's reports show. The last report counts.
func (o *operation) guarantees() (found []guarantee) {
	const grain = 5 * ms
	limit := o.ended
	ends := make([]int64, len(o.vouched))
	for i := len(ends) - 1; i >= 0; i-- {
		limit = min(limit, o.vouched[i][1])
		ends[i] = limit
	}
	latest := int64(0)
	for i, vouched := range o.vouched {
		if vouched[1] > latest+grain {
			latest = vouched[1]
			sent := max(o.call, latest-o.request.Guard.LeaseMs*ms)
			found = append(found, guarantee{min(sent, vouched[0]), vouched[0], ends[i]})
		}
	}
	return found
}
