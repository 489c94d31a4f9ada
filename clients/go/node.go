// Which server a lock is on, and the lines to it. In a cluster go-redis knows the slots. The dialer of go-redis finds the
// master that sentinels watch, so the dialer is asked for each connection, and once a second while something is at
// stake.

package rlock

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	hopsMax       = 5
	lookAtMasters = time.Second
)

var errSuperseded = errors.New("another server is the master by now")

type node struct {
	locks   *Locks
	address string
	options *redis.Options

	mutex   sync.Mutex
	lines   [lanes]*line
	session *session
}

// nodeOf finds the node of a key. Once the slots are known, it does not wait.
func (l *Locks) nodeOf(ctx context.Context, key string) (*node, *fault) {
	if l.cluster == nil {
		return l.nodeAt(l.single), nil
	}
	client, err := l.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, &fault{notNow, err}
	}
	return l.nodeAt(client.Options()), nil
}

func (l *Locks) nodeAt(options *redis.Options) *node {
	l.nodesMutex.Lock()
	defer l.nodesMutex.Unlock()
	n := l.nodes[options.Addr]
	if n == nil {
		n = &node{locks: l, address: options.Addr, options: options}
		l.nodes[options.Addr] = n
	}
	return n
}

// allNodes are all nodes that were asked so far.
func (l *Locks) allNodes() (all []*node) {
	l.nodesMutex.Lock()
	defer l.nodesMutex.Unlock()
	for _, n := range l.nodes {
		all = append(all, n)
	}
	return all
}

// elsewhere is the node of a redirection, which leaves out the host if that is the host of the node that sent it.
func (n *node) elsewhere(f *fault) *node {
	words := strings.Fields(f.cause.Error())
	if n.locks.cluster == nil || len(words) < 3 {
		return nil
	}
	host, port, err := net.SplitHostPort(words[2])
	if err != nil {
		return nil
	}
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(n.address)
	}
	options := *n.options
	options.Addr = net.JoinHostPort(host, port)
	return n.locks.nodeAt(&options)
}

// doubt acts on what a fault says about the server.
func (n *node) doubt(f *fault) {
	if (f.doubtsTheServer() || f.what == moved) && n.locks.cluster != nil {
		n.locks.cluster.ReloadState(n.locks.life)
	}
	if f.what == notHere {
		go n.leave(f) // another connection may lead to the new master
	}
}

// isSentElsewhere follows a redirection.
func (n *node) isSentElsewhere(r *request, f *fault) bool {
	n.doubt(f)
	if f.what != moved && f.what != ask || r.key == "" || r.hops == hopsMax {
		return false
	}
	to := n.elsewhere(f)
	if to == nil {
		return false
	}
	r.hops++
	r.isGone.Store(false)
	r.here = false // its caller may read another line
	if f.what == ask {
		to.send(requests, newRequest("", "ASKING"), r)
	} else {
		to.send(requests, r)
	}
	return true
}

// send never waits: neither for a connection, nor for other senders.
func (n *node) send(on lane, all ...*request) {
	n.lineTo(on).put(all)
}

func (n *node) lineTo(on lane) *line {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	l := n.lines[on]
	if l == nil {
		l = &line{node: n, lane: on, wake: make(chan struct{}, 1), watch: make(chan struct{}, 1)}
		n.lines[on] = l
		go l.run()
	}
	return l
}

func (n *node) forgets(l *line) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.lines[l.lane] == l {
		n.lines[l.lane] = nil
	}
}

// leave closes all connections: a former master may go on granting and renewing for seconds, and none of that counts.
func (n *node) leave(why *fault) {
	n.mutex.Lock()
	lines := n.lines
	n.mutex.Unlock()
	for _, l := range lines {
		if l != nil {
			l.end(why)
		}
	}
}

// followMaster notices that sentinels name another master than the one that the lines lead to.
func (l *Locks) followMaster() {
	for {
		select {
		case <-l.life.Done():
			return
		case <-time.After(lookAtMasters):
		}
		n := l.nodeAt(l.single)
		n.mutex.Lock()
		var present net.Conn
		for _, line := range n.lines {
			if line != nil {
				line.mutex.Lock()
				if line.conn != nil {
					present = line.conn
				}
				line.mutex.Unlock()
			}
		}
		n.mutex.Unlock()
		if present == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(l.life, l.options.ConnectTimeout)
		conn, err := n.options.Dialer(ctx, "tcp", n.address)
		cancel()
		if err != nil {
			continue
		}
		if conn.RemoteAddr().String() != present.RemoteAddr().String() {
			n.leave(&fault{notHere, errSuperseded})
		}
		conn.Close()
	}
}
