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

// Many processes need the rates, and one of them fetches the rates once a minute.
func ExampleLocks_Once() {
	ctx := context.Background()
	locks, err := rlock.Connect(ctx, rlock.Options{URL: "redis://127.0.0.1:6379"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	page, err := locks.Once(ctx, "rates:EUR", time.Minute, func(ctx context.Context, _ *rlock.Held) ([]byte, error) {
		return fetch(ctx, "https://rates.example/EUR") // ctx ends if the lock is lost
	}, rlock.Wait(10*time.Second)) // ErrBusy after 10 s
	log.Printf("%s %v", page, err)
}

type Rates map[string]float64

func ExampleOnceJSON() {
	ctx := context.Background()
	locks, err := rlock.Connect(ctx, rlock.Options{URL: "redis://127.0.0.1:6379"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	rates, err := rlock.OnceJSON(ctx, locks, "rates:EUR", time.Minute,
		func(ctx context.Context, _ *rlock.Held) (Rates, error) {
			return fetchRates(ctx, "EUR") // ctx ends if the lock is lost
		}, rlock.Wait(10*time.Second))
	log.Print(rates["USD"], err)
}

func fetch(context.Context, string) ([]byte, error) { return nil, nil }

func fetchRates(context.Context, string) (Rates, error) { return nil, nil }

func startDueJobs(context.Context) error { return nil }
