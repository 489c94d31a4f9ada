// Every reply and error that does not wait, as go-redis gives them.

package raw

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestALockIsItsHolders(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		ctx := t.Context()
		// snippet: send
		// Do sends any command; choose the type of its reply. A nil reply is the error redis.Nil.
		err := rdb.Do(ctx, "RLOCK.ACQUIRE", "orders:42", "worker-7", 30_000).Err()
		granted := errors.Is(err, redis.Nil)

		left, err := rdb.Do(ctx, "RLOCK.ACQUIRE", "orders:42", "worker-8", 30_000).Int64()
		refused := err == nil && left <= 30_000 // not granted: the ms that are left of the lease

		freed, err := rdb.Do(ctx, "RLOCK.RELEASE", "orders:42", "worker-7").Int64()
		free := err == nil && freed == 1
		// end
		if !granted || !refused || left < 1 || !free {
			t.Fatal(granted, refused, left, free)
		}
	})
}

func TestAReleaseHasThreeReplies(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 30000")
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 30000")
		expect(t, rdb, redis.Nil, "RLOCK.RELEASE k bob")
		expect(t, rdb, 0, "RLOCK.RELEASE k ann")
		expect(t, rdb, 1, "RLOCK.RELEASE k ann")
		expect(t, rdb, redis.Nil, "RLOCK.RELEASE k ann")
	})
}

func TestAllGivesBackEveryHold(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 30000")
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 30000")
		expect(t, rdb, 1, "RLOCK.RELEASE k ann ALL")
		expect(t, rdb, redis.Nil, "RLOCK.RELEASE k ann ALL")
	})
}

func TestTokensGrow(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		ctx := t.Context()
		reply, err := rdb.Do(ctx, "RLOCK.ACQUIRE", "orders:42", "worker-7", 30_000, "FENCED").Slice()
		granted := err == nil && reply[0] == nil
		token := reply[1]
		if !granted || token != int64(1) {
			t.Fatal(granted, token, err)
		}
		reply, err = rdb.Do(ctx, "RLOCK.ACQUIRE", "orders:42", "worker-8", 30_000, "FENCED").Slice()
		must(t, err)
		if left := reply[0].(int64); left < 1 || left > 30_000 || reply[1] != nil {
			t.Fatal(reply)
		}
		expect(t, rdb, []any{nil, 2}, "RLOCK.ACQUIRE orders:42 worker-7 30000 FENCED")
	})
}

func TestRenewingRestartsTheLease(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		expect(t, rdb, redis.Nil, "RLOCK.ACQUIRE k ann 30000")
		expect(t, rdb, 1, "RLOCK.RENEW k ann 300000")
		if lease := rdb.PTTL(t.Context(), "k").Val(); lease.Milliseconds() <= 30_000 {
			t.Fatal(lease)
		}
		expect(t, rdb, 0, "RLOCK.RENEW k bob 30000")
	})
}

func TestReadersShareAndAWriterExcludes(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		expect(t, rdb, redis.Nil, "RLOCK.RACQUIRE k ann 30000")
		expect(t, rdb, redis.Nil, "RLOCK.RACQUIRE k bob 30000")
		expectLeft(t, rdb, 30_000, "RLOCK.WACQUIRE k cid 30000")
		expect(t, rdb, 0, "RLOCK.RELEASE k ann READ")
		expect(t, rdb, 1, "RLOCK.RELEASE k bob READ")
		expect(t, rdb, redis.Nil, "RLOCK.WACQUIRE k cid 30000")
		expectLeft(t, rdb, 30_000, "RLOCK.RACQUIRE k ann 30000")
		expect(t, rdb, 1, "RLOCK.RELEASE k cid WRITE")
	})
}

func TestErrorsNameWhatIsWrong(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, rdb *redis.Client) {
		ctx := t.Context()
		expect(t, rdb, redis.Nil, "RLOCK.RACQUIRE orders:42 worker-7 30000")
		var refusal redis.Error // an error that the server replied
		err := rdb.Do(ctx, "RLOCK.ACQUIRE", "orders:42", "worker-8", 30_000).Err()
		wrongKind := errors.As(err, &refusal) && redis.HasErrorPrefix(err, "WRONGKIND")

		err = rdb.Do(ctx, "RLOCK.RACQUIRE", "orders:42", "worker-8", 0).Err()
		badLease := errors.As(err, &refusal) && strings.HasPrefix(err.Error(), "ERR lease must be ")
		if !wrongKind || !badLease {
			t.Fatal(wrongKind, badLease, err)
		}
		expect(t, rdb, "[mode worker-7]", "HKEYS orders:42")
	})
}
