// A worker that holds a lock while it works, and releases it when a deploy sends SIGTERM:
//
//	deploy redis://127.0.0.1:6379 reports
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/rlock/rlock/clients/go"
)

func main() {
	// SIGTERM ends ctx, so the work ends, and Do releases the lock.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, key string) error {
	locks, err := rlock.Connect(ctx, rlock.Options{URL: url})
	if err != nil {
		return err
	}
	defer locks.Close(context.Background())
	return locks.Do(ctx, key, work)
}

// work lasts until SIGTERM, or until the lock is lost.
func work(ctx context.Context, _ *rlock.Held) error {
	fmt.Println("held")
	<-ctx.Done()
	return nil
}
