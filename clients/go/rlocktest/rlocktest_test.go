package rlocktest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rlock/rlock/clients/go"
	"github.com/rlock/rlock/clients/go/rlocktest"
)

// snippet: go
func TestOneShipsAtATime(t *testing.T) {
	locks, err := rlock.Connect(t.Context(), rlock.Options{URL: rlocktest.Start(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(context.Background())

	held, err := locks.Acquire(t.Context(), "orders:42") // another one ships it
	if err != nil {
		t.Fatal(err)
	}
	if err := ship(t.Context(), locks); !errors.Is(err, rlock.ErrBusy) {
		t.Fatal("two ship at once: ", err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := ship(t.Context(), locks); err != nil {
		t.Fatal(err)
	}
}

// end

func ship(ctx context.Context, locks *rlock.Locks) error {
	return locks.Do(ctx, "orders:42", func(context.Context, *rlock.Held) error { return nil }, rlock.Wait(0))
}

func TestSettingsAreThoseOfTheModule(t *testing.T) {
	locks, err := rlock.Connect(t.Context(), rlock.Options{URL: rlocktest.Start(t, "--set", "max-sessions=0")})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(context.Background())
	held, err := locks.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release(context.Background())
	if _, err := locks.Acquire(t.Context(), "a"); !errors.Is(err, rlock.ErrQueueFull) {
		t.Fatal("a session was opened: ", err)
	}
}
