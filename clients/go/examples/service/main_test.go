package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlock/rlock/clients/go"
)

func TestAnOrderIsShippedByOneAtATime(t *testing.T) {
	url := os.Getenv("RLOCK_URL")
	if url == "" {
		t.Skip("RLOCK_URL says where no server is")
	}
	var inside, most, last atomic.Int64
	ship := func(_ context.Context, _ string, token int64) error {
		most.Store(max(most.Load(), inside.Add(1)))
		defer inside.Add(-1)
		if last.Swap(token) >= token {
			t.Error("a token has not grown")
		}
		return nil
	}
	order := fmt.Sprint(time.Now().UnixNano())
	var all sync.WaitGroup
	for range 2 { // two copies of the service
		locks, err := rlock.Connect(t.Context(), rlock.Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close(context.Background())
		service := service(locks, ship)
		for range 20 {
			all.Add(1)
			go func() {
				defer all.Done()
				answer := httptest.NewRecorder()
				service.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/"+order+"/ship", nil))
				if answer.Code != http.StatusNoContent {
					t.Error(answer.Code, answer.Body)
				}
			}()
		}
	}
	all.Wait()
	if most.Load() != 1 {
		t.Fatal(most.Load(), " at once")
	}
}
