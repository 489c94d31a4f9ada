// The adapter by which the suite of clients/conformance drives this client: it reads requests from its standard input,
// a JSON object a line, and writes answers and news to its standard output. A goroutine of its own
// serves each request.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlock/rlock/clients/go"
)

type request struct {
	ID   int64  `json:"id"`
	Do   string `json:"do"`
	Held string `json:"held"`
	Of   int64  `json:"of"`
	For  int64  `json:"for"`

	URL       string   `json:"url"`
	Cluster   []string `json:"cluster"`
	Sentinels []string `json:"sentinels"`
	Master    string   `json:"master"`
	Patience  int64    `json:"patience"`
	Answer    int64    `json:"answer"`
	Name      string   `json:"name"`

	Lock       string   `json:"lock"`
	Read       string   `json:"read"`
	Write      string   `json:"write"`
	Permit     string   `json:"permit"`
	Limit      int      `json:"limit"`
	All        []string `json:"all"`
	Wait       *int64   `json:"wait"`
	Lease      *int64   `json:"lease"`
	Fixed      *int64   `json:"fixed"`
	Fenced     bool     `json:"fenced"`
	Owner      *string  `json:"owner"`
	MaxWaiters *int     `json:"max_waiters"`
	Replicas   *int     `json:"replicas"`
	Within     *int64   `json:"within"`
	Text       string   `json:"text"`
	Once       string   `json:"once"`
	Keep       int64    `json:"keep"`
	Value      string   `json:"value"`
}

type adapter struct {
	mutex   sync.Mutex
	locks   *rlock.Locks
	held    map[string]*rlock.Held
	cancels map[int64]context.CancelFunc
	ends    map[int64]chan end // of work that runs
}

// end is how work ends: with a value for Once, or with its own error.
type end struct {
	value string
	err   error
}

var errFailed = errors.New("the work failed by request")

type object = map[string]any

var output sync.Mutex

func say(line object) {
	output.Lock()
	defer output.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(line)
}

func main() {
	a := &adapter{held: map[string]*rlock.Held{}, cancels: map[int64]context.CancelFunc{},
		ends: map[int64]chan end{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			say(object{"error": "configuration", "text": err.Error()})
			continue
		}
		work := a.prepare(&r)
		go func() {
			ok, err := work()
			if err != nil {
				say(withReason(object{"id": r.ID, "error": word(err), "text": err.Error()}, err))
			} else {
				say(object{"id": r.ID, "ok": ok})
			}
		}()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
	defer cancel()
	if a.locks != nil {
		_ = a.locks.Close(ctx)
	}
}

// prepare does at once what later requests depend on.
func (a *adapter) prepare(r *request) func() (object, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	ctx := context.Background()
	if a.locks == nil && r.Do != "open" && r.Do != "block" && r.Do != "close" {
		return func() (object, error) { return nil, rlock.ErrConfiguration }
	}
	switch r.Do {
	case "open":
		locks, err := open(ctx, r) // nothing else can be asked before
		a.locks = locks
		return func() (object, error) { return object{"without": []string{}}, err }
	case "acquire", "lead", "once":
		ctx, a.cancels[r.ID] = context.WithCancel(ctx)
		wait := map[string]func(context.Context, *request) (object, error){
			"acquire": a.acquire, "lead": a.lead, "once": a.once}[r.Do]
		return func() (object, error) { return wait(ctx, r) }
	case "cancel":
		if cancel := a.cancels[r.Of]; cancel != nil {
			cancel()
		}
	case "adopt":
		return func() (object, error) {
			held, err := a.locks.Adopt(ctx, r.Text)
			return a.keep(r, held, err)
		}
	case "forget":
		return func() (object, error) { return object{}, a.locks.Forget(ctx, r.Once) }
	case "release", "look", "detach":
		held := a.held[r.Held]
		if held == nil {
			return func() (object, error) { return nil, rlock.ErrConfiguration }
		}
		return func() (object, error) { return with(ctx, held, r) }
	case "run":
		ends := make(chan end, 1)
		a.ends[r.ID] = ends
		return func() (object, error) { return a.run(ctx, r, ends) }
	case "finish", "fail":
		if ends := a.ends[r.Of]; ends != nil {
			ends <- end{r.Value, map[string]error{"fail": errFailed}[r.Do]}
			delete(a.ends, r.Of)
		}
	case "block":
		return func() (object, error) {
			time.Sleep(milliseconds(r.For))
			return object{}, nil
		}
	case "close":
		if a.locks != nil {
			return func() (object, error) { return object{}, a.locks.Close(ctx) }
		}
	default:
		return func() (object, error) { return nil, rlock.ErrConfiguration }
	}
	return func() (object, error) { return object{}, nil }
}

func open(ctx context.Context, r *request) (*rlock.Locks, error) {
	options := rlock.Options{URL: r.URL, Patience: milliseconds(r.Patience), AnswerTimeout: milliseconds(r.Answer),
		Name: r.Name}
	if r.Lease != nil {
		options.Lease = milliseconds(*r.Lease)
	}
	if len(r.Cluster)+len(r.Sentinels) > 0 {
		options.Redis = &redis.UniversalOptions{MasterName: r.Master, IsClusterMode: len(r.Cluster) > 0}
		for _, url := range append(r.Cluster, r.Sentinels...) {
			one, err := redis.ParseURL(url)
			if err != nil {
				return nil, &rlock.Error{Kind: rlock.ErrConfiguration, Lock: "open", Cause: err}
			}
			options.Redis.Addrs = append(options.Redis.Addrs, one.Addr)
			options.Redis.Username, options.Redis.Password, options.Redis.DB = one.Username, one.Password, one.DB
		}
	}
	return rlock.Connect(ctx, options)
}

func (a *adapter) lock(r *request) *rlock.Lock {
	switch {
	case r.Read != "":
		return a.locks.Read(r.Read)
	case r.Write != "":
		return a.locks.Write(r.Write)
	case r.Permit != "":
		return a.locks.Permit(r.Permit, r.Limit)
	case r.All != nil:
		return a.locks.All(r.All...)
	}
	return a.locks.Lock(r.Lock)
}

func terms(r *request) (options []rlock.Option) {
	if r.Wait != nil {
		options = append(options, rlock.Wait(milliseconds(*r.Wait)))
	}
	if r.Lease != nil {
		options = append(options, rlock.Lease(milliseconds(*r.Lease)))
	}
	if r.Fixed != nil {
		options = append(options, rlock.FixedLease(milliseconds(*r.Fixed)))
	}
	if r.Fenced {
		options = append(options, rlock.Fenced())
	}
	if r.Owner != nil {
		options = append(options, rlock.Owner(*r.Owner))
	}
	if r.MaxWaiters != nil {
		options = append(options, rlock.MaxWaiters(*r.MaxWaiters))
	}
	if r.Replicas != nil {
		within := int64(0)
		if r.Within != nil {
			within = *r.Within
		}
		options = append(options, rlock.Replicas(*r.Replicas, milliseconds(within)))
	}
	return options
}

func (a *adapter) acquire(ctx context.Context, r *request) (object, error) {
	held, err := a.lock(r).Acquire(ctx, terms(r)...)
	return a.keep(r, held, err)
}

// with does what a request asks about a lock that is held.
func with(ctx context.Context, held *rlock.Held, r *request) (object, error) {
	switch r.Do {
	case "look":
		return object{"lost": held.Lost(), "remaining": held.Remaining().Milliseconds()}, nil
	case "release":
		return object{}, held.Release(ctx)
	}
	var options []rlock.Option
	if r.Within != nil {
		options = append(options, rlock.Lease(milliseconds(*r.Within)))
	}
	text, err := held.Detach(ctx, options...)
	return object{"text": text}, err
}

// keep notes what is held, and answers as for acquire.
func (a *adapter) keep(r *request, held *rlock.Held, err error) (object, error) {
	if err != nil {
		return nil, err
	}
	a.mutex.Lock()
	a.held[r.Held] = held
	a.mutex.Unlock()
	context.AfterFunc(held.Context(), func() {
		if why := held.Err(); why != nil {
			say(withReason(object{"lost": r.Held, "why": why.Error()}, why))
		}
	})
	answer := object{"holder": held.Holder()}
	isSeveral := r.All != nil || strings.HasPrefix(r.Text, "rlock1/several/")
	if tokens := held.Tokens(); len(tokens) > 0 && isSeveral {
		answer["tokens"] = tokens
	} else if len(tokens) > 0 {
		answer["token"] = held.Token()
	}
	return answer, nil
}

func (a *adapter) run(ctx context.Context, r *request, ends chan end) (object, error) {
	err := a.lock(r).Do(ctx, func(ctx context.Context, held *rlock.Held) error {
		a.mutex.Lock()
		a.held[r.Held] = held
		a.mutex.Unlock()
		began := object{"began": r.ID}
		if held.Token() != 0 {
			began["token"] = held.Token()
		}
		say(began)
		select {
		case <-ctx.Done():
			if held.Lost() {
				say(withReason(object{"lost": r.Held, "why": held.Err().Error()}, held.Err()))
			}
			return context.Cause(ctx)
		case it := <-ends:
			return it.err
		}
	}, terms(r)...)
	return object{}, err
}

// lead's work waits for `finish`, turn by turn.
func (a *adapter) lead(ctx context.Context, r *request) (object, error) {
	return object{}, a.locks.Lead(ctx, r.Lock, func(ctx context.Context, _ *rlock.Held) error {
		defer say(object{"ended": r.ID})
		_, err := a.work(ctx, r.ID)
		return err
	}, terms(r)...)
}

func (a *adapter) once(ctx context.Context, r *request) (object, error) {
	work := func(ctx context.Context, _ *rlock.Held) ([]byte, error) { return a.work(ctx, r.ID) }
	value, err := a.locks.Once(ctx, r.Once, milliseconds(r.Keep), work, terms(r)...)
	return object{"value": string(value)}, err
}

// work waits to be stopped, or for a request that ends it. Later requests of that kind are ignored.
func (a *adapter) work(ctx context.Context, id int64) ([]byte, error) {
	ends := make(chan end, 1)
	a.mutex.Lock()
	a.ends[id] = ends
	a.mutex.Unlock()
	defer func() {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		delete(a.ends, id)
	}()
	say(object{"began": id})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case it := <-ends:
		return []byte(it.value), it.err
	}
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

// withReason adds why a lock was lost.
func withReason(line object, err error) object {
	var lost *rlock.Error
	if errors.As(err, &lost) && lost.Reason != "" {
		line["reason"] = lost.Reason
	}
	return line
}

// word is the suite's word for an error. An error of several kinds gets the first of these words.
func word(err error) string {
	for _, it := range []struct {
		kind error
		word string
	}{
		{errFailed, "failed"}, {rlock.ErrInDoubt, "in-doubt"}, {rlock.ErrLost, "lost"}, {rlock.ErrBusy, "busy"},
		{rlock.ErrClosed, "closed"}, {context.Canceled, "cancelled"}, {rlock.ErrUnavailable, "unavailable"},
		{rlock.ErrTooFewReplicas, "too-few-replicas"}, {rlock.ErrQueueFull, "queue-full"},
		{rlock.ErrWrongKind, "wrong-kind"}, {rlock.ErrDeadlock, "deadlock"}, {rlock.ErrNoModule, "no-module"},
		{rlock.ErrOldModule, "old-module"}, {rlock.ErrNoRight, "no-right"}, {rlock.ErrRefused, "refused"},
	} {
		if errors.Is(err, it.kind) {
			return it.word
		}
	}
	return "configuration"
}
