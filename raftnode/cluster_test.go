package raftnode

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/raftnode/memnet"
)

// chain is a state machine whose state is the hash chain of all applied entries, so two replicas have equal states only
// if they applied the same entries.
type chain struct {
	mu     sync.Mutex
	state  chainState
	voters []string
	// block, if it is not nil, delays each entry until something can be received from it.
	block chan struct{}
}

type chainState struct {
	Hash     [32]byte
	Index    uint64
	Commands []string
}

// chainResult is the result of a command of a chain.
type chainResult struct {
	Command string
	Nth     int // the number of commands before it
}

func packChain(_ time.Time, commands [][]byte) []byte {
	var entry []byte
	for _, c := range commands {
		entry = binary.AppendUvarint(entry, uint64(len(c)))
		entry = append(entry, c...)
	}
	return entry
}

func (c *chain) Apply(index uint64, entry []byte) []any {
	if c.block != nil {
		<-c.block
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if index <= c.state.Index {
		panic(fmt.Sprintf("entry %d applied after %d", index, c.state.Index))
	}
	c.state.Index = index
	c.state.Hash = sha256.Sum256(append(append(c.state.Hash[:], entry...), byte(index)))
	var results []any
	for len(entry) > 0 {
		size, n := binary.Uvarint(entry)
		command := string(entry[n : n+int(size)])
		entry = entry[n+int(size):]
		results = append(results, chainResult{Command: command, Nth: len(c.state.Commands)})
		c.state.Commands = append(c.state.Commands, command)
	}
	return results
}

func (c *chain) Snapshot() (Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.Commands = slices.Clone(s.Commands)
	return &chainSnapshot{s}, nil
}

func (c *chain) Restore(from io.Reader) error {
	var s chainState
	if err := json.NewDecoder(from).Decode(&s); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = s
	return nil
}

func (c *chain) StoreConfiguration(_ uint64, voters []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.voters = voters
}

func (c *chain) copy() chainState {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.Commands = slices.Clone(s.Commands)
	return s
}

type chainSnapshot struct{ chainState }

func (s *chainSnapshot) WriteTo(to io.Writer) (int64, error) {
	raw, err := json.Marshal(s.chainState)
	if err != nil {
		return 0, err
	}
	n, err := to.Write(raw)
	return int64(n), err
}
func (s *chainSnapshot) Release() {}

// cluster is a group of replicas on a network in memory, with log stores on disk, in virtual time.
type cluster struct {
	t     *testing.T
	net   *memnet.Network
	dir   string
	ids   []string
	nodes map[string]*Node
	sms   map[string]*chain
	tune  func(id string, c *Config)
}

func addrOf(id string) string { return id + ":1" }

// runCluster starts count replicas, waits for a leader and runs fn.
func runCluster(t *testing.T, count int, tune func(id string, c *Config), fn func(t *testing.T, c *cluster)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: memnet.New(), dir: dir, nodes: map[string]*Node{}, sms: map[string]*chain{}, tune: tune}
		for i := range count {
			c.ids = append(c.ids, fmt.Sprintf("c%d", i+1))
		}
		for _, id := range c.ids {
			c.start(id, c.ids)
		}
		defer c.stopAll()
		c.leader()
		fn(t, c)
	})
}

// start opens a replica with a list of members for Bootstrap.
func (c *cluster) start(id string, members []string) *Node {
	c.t.Helper()
	stream, err := c.net.Listen(addrOf(id))
	require.NoError(c.t, err)
	cfg := Config{
		ID: id, Dir: filepath.Join(c.dir, id), Stream: stream, Pack: packChain,
		Logger: slog.New(slog.NewTextHandler(testWriter{c.t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	for _, m := range members {
		cfg.Bootstrap = append(cfg.Bootstrap, Server{ID: m, Addr: addrOf(m)})
	}
	if c.tune != nil {
		c.tune(id, &cfg)
	}
	sm := &chain{}
	n, err := Open(cfg, sm)
	require.NoError(c.t, err)
	c.nodes[id], c.sms[id] = n, sm
	return n
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s %s", time.Now().Format("04:05.000"), b)
	return len(b), nil
}

func (c *cluster) stop(id string) {
	c.t.Helper()
	require.NoError(c.t, c.nodes[id].Shutdown(c.t.Context()))
	delete(c.nodes, id)
}

func (c *cluster) stopAll() {
	for _, n := range c.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := n.Shutdown(ctx); err != nil {
			c.t.Error(err)
		}
		cancel()
	}
}

// leader waits until one of the named replicas leads, or any replica if none is named.
func (c *cluster) leader(among ...string) *Node {
	c.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		for id, n := range c.nodes {
			if n.IsLeader() && (len(among) == 0 || slices.Contains(among, id)) {
				return n
			}
		}
		time.Sleep(5 * time.Millisecond) // virtual
	}
	require.Fail(c.t, "nobody leads after a minute")
	return nil
}

func (c *cluster) others(id string) []string {
	var others []string
	for other := range c.nodes {
		if other != id {
			others = append(others, other)
		}
	}
	slices.Sort(others)
	return others
}

func (c *cluster) propose(n *Node, command string) Applied {
	c.t.Helper()
	a, err := n.Propose(c.t.Context(), []byte(command))
	require.NoError(c.t, err)
	require.Equal(c.t, command, a.Result.(chainResult).Command)
	return a
}

// agree waits until every running replica has applied index, requires that their states are equal, and returns the
// state.
func (c *cluster) agree(index uint64) chainState {
	c.t.Helper()
	var want *chainState
	for id, n := range c.nodes {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
		require.NoError(c.t, n.WaitApplied(ctx, index), "replica %s", id)
		cancel()
		got := c.sms[id].copy()
		if want == nil {
			want = &got
		}
		require.Equal(c.t, *want, got, "replica %s", id)
	}
	return *want
}
