// What a lock costs: this client beside redsync, on one server, in one process. It prints a table in Markdown, and
// takes about half a minute. The server is at RLOCK_URL, else at the usual port of this machine.
//
// Two figures: how many times a second one goroutine takes and gives back a lock that nobody else wants; and what a
// thousand goroutines wait that want fifty locks, each for a millisecond: how many grants a second, the longest wait of
// all, the processor time of this process for each grant, and how many connections it has to the server.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/rlock/rlock/clients/go"
)

const (
	goroutines = 1000
	locks      = 50
	alone      = 4 * time.Second
	together   = 10 * time.Second
)

// cycle takes a lock, works, and gives it back. It returns how long it waited.
type cycle func(ctx context.Context, name string, work func()) (time.Duration, error)

func main() {
	log.SetFlags(0)
	options, err := redis.ParseURL(cmp.Or(os.Getenv("RLOCK_URL"), "redis://127.0.0.1:6379"))
	check(err)
	watch := redis.NewClient(options)
	fmt.Println("| client | cycles a second, alone | grants a second | longest wait | processor time for a grant | connections |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, client := range []struct {
		name string
		open func(*redis.Options) (cycle, func())
	}{{"rlock", byRlock}, {"redsync", byRedsync}} {
		others := strings.Count(watch.ClientList(context.Background()).Val(), "\n")
		cycle, end := client.open(options)
		cycles := byItself(cycle)
		grants, longest, spent, connections := byMany(cycle, watch)
		end()
		fmt.Printf("| %s | %.0f | %.0f | %v | %v | %d |\n", client.name, float64(cycles)/alone.Seconds(),
			float64(grants)/together.Seconds(), longest.Round(time.Millisecond), spent/time.Duration(max(1, grants)),
			connections-others)
	}
}

func byRlock(options *redis.Options) (cycle, func()) {
	client, err := rlock.New(redis.NewClient(options), rlock.Options{})
	check(err)
	return func(ctx context.Context, name string, work func()) (wait time.Duration, err error) {
		began := time.Now()
		err = client.Do(ctx, name, func(context.Context, *rlock.Held) error {
			wait = time.Since(began)
			work()
			return nil
		})
		return wait, err
	}, func() { check(client.Close(context.Background())) }
}

func byRedsync(options *redis.Options) (cycle, func()) {
	client := redis.NewClient(options)
	sync := redsync.New(goredis.NewPool(client))
	return func(ctx context.Context, name string, work func()) (time.Duration, error) {
		began, mutex := time.Now(), sync.NewMutex(name, redsync.WithExpiry(30*time.Second), redsync.WithTries(1<<30))
		if err := mutex.LockContext(ctx); err != nil {
			return 0, err
		}
		wait := time.Since(began)
		work()
		_, err := mutex.UnlockContext(context.WithoutCancel(ctx))
		return wait, err
	}, func() { check(client.Close()) }
}

func byItself(cycle cycle) (cycles int) {
	for end := time.Now().Add(alone); time.Now().Before(end); cycles++ {
		_, err := cycle(context.Background(), "bench:alone", func() {})
		check(err)
	}
	return cycles
}

func byMany(cycle cycle, watch *redis.Client) (grants int64, longest, spent time.Duration, connections int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer time.AfterFunc(together, cancel).Stop()
	var all sync.WaitGroup
	var count atomic.Int64
	waits := make([]time.Duration, goroutines)
	before := processorTime()
	for i := range goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			for ctx.Err() == nil {
				began := time.Now()
				_, err := cycle(ctx, fmt.Sprint("bench:", i%locks), func() { time.Sleep(time.Millisecond) })
				// Who is still waiting at the end has waited for so long as well.
				if waits[i] = max(waits[i], time.Since(began)); err == nil {
					count.Add(1)
				} else if ctx.Err() == nil {
					check(err)
				}
			}
		}()
	}
	for ctx.Err() == nil {
		connections = max(connections, strings.Count(watch.ClientList(context.Background()).Val(), "\n"))
		time.Sleep(100 * time.Millisecond)
	}
	all.Wait()
	for _, wait := range waits {
		longest = max(longest, wait)
	}
	return count.Load(), longest, processorTime() - before, connections
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func check(err error) {
	if err != nil {
		log.Fatal("bench: ", err)
	}
}
