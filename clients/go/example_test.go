package rlock_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rlock/rlock/clients/go"
)

func ExampleLocks_Lead() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	locks, err := rlock.Connect(ctx, rlock.Options{URL: "redis://127.0.0.1:6379"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(context.Background())
	err = locks.Lead(ctx, "scheduler", func(ctx context.Context, _ *rlock.Held) error {
		for ctx.Err() == nil { // until SIGTERM, or until the lock is lost
			if err := startDueJobs(ctx); err != nil {
				return err // ends the lead
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		return nil
	})
	log.Print("leads no more: ", err)
}

func startDueJobs(context.Context) error { return nil }
