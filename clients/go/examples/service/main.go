// A service that ships each order once at a time, however many of its copies run: the lock is named after the order.
// A caller that posts to /orders/42/ship while another request ships that order gets a reply after two seconds.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/rlock/rlock/clients/go"
)

func main() {
	url := cmp.Or(os.Getenv("RLOCK_URL"), "redis://127.0.0.1:6379")
	locks, err := rlock.Connect(context.Background(), rlock.Options{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", service(locks, ship)))
}

func service(locks *rlock.Locks, ship func(ctx context.Context, order string, token int64) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}/ship", func(w http.ResponseWriter, r *http.Request) {
		order := r.PathValue("id")
		err := locks.Do(r.Context(), "orders:"+order, func(ctx context.Context, held *rlock.Held) error {
			return ship(ctx, order, held.Token()) // ctx ends if the lock is lost, or the caller hangs up
		}, rlock.Wait(2*time.Second), rlock.Fenced())
		switch {
		case errors.Is(err, rlock.ErrBusy):
			http.Error(w, "another request ships this order", http.StatusConflict)
		case errors.Is(err, rlock.ErrLost):
			http.Error(w, "it may not have been shipped", http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, "not now", http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	return mux
}

// ship hands the order to the warehouse, which refuses a token that is lower than the last it saw.
func ship(ctx context.Context, order string, token int64) error {
	log.Print("order ", order, " is shipped under token ", token)
	return ctx.Err()
}
