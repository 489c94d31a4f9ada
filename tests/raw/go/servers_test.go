// Package raw runs the RLOCK commands with go-redis. This file has what every test looks at.
package raw

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// doer is a client of one server or of a cluster.
type doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

// onEachProtocol runs a test on RESP2 and on RESP3, with an empty server each time.
func onEachProtocol(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			options := options(t, "RLOCK_URL")
			options.Protocol = protocol
			rdb := redis.NewClient(options)
			defer rdb.Close()
			must(t, rdb.FlushAll(t.Context()).Err())
			test(t, rdb)
		})
	}
}

func options(t *testing.T, variable string) *redis.Options {
	options, err := redis.ParseURL(os.Getenv(variable))
	must(t, err)
	return options
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expect fails the test unless the command has this reply; redis.Nil stands for nil.
func expect(t *testing.T, rdb doer, want any, command string) {
	t.Helper()
	if got, want := fmt.Sprint(do(rdb, command)), fmt.Sprint(want); got != want {
		t.Fatalf("%s: got %s, want %s", command, got, want)
	}
}

// expectLeft fails the test unless the command is refused with a number of ms.
func expectLeft(t *testing.T, rdb doer, atMost int64, command string) {
	t.Helper()
	reply := do(rdb, command)
	if left, isNumber := reply.(int64); !isNumber || left < 1 || left > atMost {
		t.Fatalf("%s: got %v, want 1 to %d ms", command, reply, atMost)
	}
}

// do gives a command's reply, or its error.
func do(rdb doer, command string) any {
	words := strings.Fields(command)
	arguments := make([]any, len(words))
	for i, word := range words {
		arguments[i] = word
	}
	reply, err := rdb.Do(context.Background(), arguments...).Result()
	if err != nil {
		return err
	}
	return reply
}
