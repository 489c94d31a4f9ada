// What the project's pages show of this client.

package rlock_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rlock/rlock/clients/go"
)

func TestALockAroundWork(t *testing.T) {
	url := os.Getenv("RLOCK_URL")
	if url == "" {
		t.Skip("RLOCK_URL is not set")
	}
	ctx, shipped := t.Context(), int64(0)
	ship := func(_ context.Context, _ string, token int64) error {
		shipped = token
		return nil
	}
	work := func() error {
		// snippet: lock
		locks, err := rlock.Connect(ctx, rlock.Options{URL: url}) // once in a program
		if err != nil {
			return err
		}
		defer locks.Close(ctx)
		return locks.Do(ctx, "orders:42", func(ctx context.Context, held *rlock.Held) error {
			return ship(ctx, "orders:42", held.Token()) // ctx ends if the lock is lost
		}, rlock.Wait(10*time.Second), rlock.Fenced()) // ErrBusy after 10 s
		// end
	}
	if err := work(); err != nil || shipped == 0 {
		t.Fatal(err, shipped)
	}
}
