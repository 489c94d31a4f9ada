// A cluster: each command goes to the lock's own node, and at once.

package raw

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestCommandsFindTheirNode(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			address := options(t, "RLOCK_CLUSTER_URL").Addr
			cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, Protocol: protocol})
			defer cluster.Close()
			findTheirNode(t, cluster)
		})
	}
}

func TestAWaitFindsItsNode(t *testing.T) {
	ctx, address := t.Context(), options(t, "RLOCK_CLUSTER_URL").Addr
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	defer cluster.Close()
	must(t, cluster.Del(ctx, "orders:42").Err())
	expect(t, cluster, redis.Nil, "RLOCK.ACQUIRE orders:42 worker-7 1000")
	// go-redis takes the first argument of a command that it does not know for the key; here that is right.
	waits := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, ReadTimeout: 15 * time.Second})
	defer waits.Close()
	err := waits.Do(ctx, "RLOCK.ACQUIRE", "orders:42", "worker-8", 30_000, "WAIT", 10_000).Err()
	granted := errors.Is(err, redis.Nil)
	if !granted {
		t.Fatal(err)
	}
	expect(t, cluster, "[worker-8]", "HKEYS orders:42")
}

func findTheirNode(t *testing.T, cluster *redis.ClusterClient) {
	onEachNode(t, cluster, func(ctx context.Context, node *redis.Client) error {
		return errors.Join(node.FlushAll(ctx).Err(), node.ConfigResetStat(ctx).Err())
	})
	for number := range 30 {
		key := fmt.Sprint("orders:", number)
		expect(t, cluster, redis.Nil, "RLOCK.ACQUIRE "+key+" worker-7 30000")
	}
	onEachNode(t, cluster, func(ctx context.Context, node *redis.Client) error {
		if node.DBSize(ctx).Val() == 0 {
			return errors.New("a node has no locks")
		}
		return nil
	})
	for number := range 30 {
		expect(t, cluster, 1, fmt.Sprintf("RLOCK.RELEASE orders:%d worker-7", number))
	}
	onEachNode(t, cluster, func(ctx context.Context, node *redis.Client) error {
		if errorStats := node.Info(ctx, "errorstats").Val(); strings.Contains(errorStats, "MOVED") {
			return errors.New("a node had to send the client to another")
		}
		return nil
	})
}

func onEachNode(t *testing.T, cluster *redis.ClusterClient, task func(context.Context, *redis.Client) error) {
	t.Helper()
	must(t, cluster.ForEachMaster(t.Context(), task))
}
