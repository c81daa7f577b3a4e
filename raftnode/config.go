package raftnode

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/raftnode/machine"
	"github.com/mindcoordinator/mind/raftnode/pace"
	"github.com/mindcoordinator/mind/raftnode/store"
	"github.com/mindcoordinator/mind/raftnode/stream"
)

// StateMachine is what a node replicates.
type StateMachine = machine.StateMachine

// Snapshot is a state that does not change while it is written.
type Snapshot = machine.Snapshot

// Server is one replica: its id and the address its raft listener advertises.
type Server struct {
	ID   string
	Addr string
}

// Log stores that Config.LogStore can name.
const (
	StoreWAL  = store.WAL
	StoreBolt = store.Bolt
)

// Config says how a node takes part. The zero value of every field but ID, Dir,
// Pack and an address means its default.
type Config struct {
	// ID names this replica for ever.
	ID string
	// Dir holds the log and the snapshots.
	Dir string
	// BindAddr is host:port to listen on; AdvertiseAddr is where the others
	// reach it (default: the address that was bound).
	BindAddr      string
	AdvertiseAddr string
	// ServerTLS and ClientTLS secure the links between replicas; both or
	// neither. Whatever they verify, the peer's certificate must also carry
	// the role of a coordinator. DialTLS, when set, is asked before each
	// handshake and stands for ClientTLS: so authorities can change.
	ServerTLS *tls.Config
	ClientTLS *tls.Config
	DialTLS   func() *tls.Config
	// Bootstrap is the first membership: 1, 3 or 5 servers, the same list on
	// each of them. It is used only by a node that has no state yet. Empty:
	// the node waits until a leader adds it.
	Bootstrap []Server
	// MayBootstrap is asked before Bootstrap is used, with nothing started
	// yet; it may take its time. False: there is a cluster already, and the
	// node waits until a leader adds it. nil: always.
	MayBootstrap func() (bool, error)
	// LogStore is StoreWAL or StoreBolt: a log of the other kind is moved when the node is opened. Empty: see store.Config.
	LogStore string

	// HeartbeatTimeout (400 ms) is how long a follower waits for its leader
	// before it stands for election (up to twice this), ElectionTimeout (400
	// ms) how long an election may take, LeaderLease (400 ms) how long a leader
	// goes on without hearing from a majority. A follower is silent while its
	// disk writes, so a lease is also how slow a write may be before it costs
	// the leader its office. On a machine that is slow the replica lengthens all
	// three by itself, up to a heartbeat timeout of MaxTimeout (16 times
	// HeartbeatTimeout); see pace.
	HeartbeatTimeout time.Duration
	ElectionTimeout  time.Duration
	LeaderLease      time.Duration
	MaxTimeout       time.Duration
	// CommitTimeout (10 ms) bounds how long after the last write of a burst the
	// followers learn that it is committed (up to twice this). The price is an
	// empty message to each follower at this pace, and at a twentieth of it once
	// nothing was proposed for a second.
	CommitTimeout time.Duration
	// LinkTimeout (3 s) bounds dialling a peer and one message to it.
	LinkTimeout time.Duration

	// A snapshot is taken when SnapshotThreshold (8192) entries came since the
	// last, looked at every SnapshotInterval (60 s, up to twice that);
	// TrailingLogs (16384) entries are kept behind it, for replicas that lag, and so that the log continues the snapshot before
	// it, too: what is kept of the past begins there (package replay).
	SnapshotInterval  time.Duration
	SnapshotThreshold uint64
	TrailingLogs      uint64

	// Pack makes one log entry of commands; it is called on the leader.
	Pack func(now time.Time, commands [][]byte) []byte
	// MaxBacklog (16384) commands and MaxBacklogBytes (64 MiB) may wait to be
	// packed; past that Propose answers ErrBacklogFull.
	MaxBacklog      int
	MaxBacklogBytes int
	// An entry takes commands up to MaxEntryBytes (512 KiB) and
	// MaxEntryCommands (1024). A larger command travels alone, up to
	// MaxCommandBytes (8 MiB).
	MaxEntryBytes    int
	MaxEntryCommands int
	MaxCommandBytes  int
	// MaxInFlight (2) entries may be in flight to commit. While there is
	// room a command is sent at once; while there is none commands pile up
	// into the next entry.
	MaxInFlight int

	Logger  *slog.Logger
	Metrics prometheus.Registerer

	// Network carries the connections, with TLS on top (default TCP).
	Network stream.Network
	// Stream replaces the listener and the dialler, TLS included, in tests.
	Stream raft.StreamLayer
	// Stores replaces the log and the snapshots below Dir, in tests.
	Stores func() (Store, raft.SnapshotStore, error)
	// WrapStore may put a faulty disk between the node and its log, in tests.
	WrapStore func(Store) Store
	// Now stamps entries (default time.Now).
	Now func() time.Time
}

// Store is where a node keeps its log and its votes.
type Store = store.Store

// withDefaults fills what was left at zero.
func (c Config) withDefaults() Config {
	c.HeartbeatTimeout = cmp.Or(c.HeartbeatTimeout, 400*time.Millisecond)
	c.ElectionTimeout = cmp.Or(c.ElectionTimeout, 400*time.Millisecond)
	c.LeaderLease = cmp.Or(c.LeaderLease, 400*time.Millisecond)
	c.MaxTimeout = cmp.Or(c.MaxTimeout, pace.Most*c.HeartbeatTimeout)
	c.CommitTimeout = cmp.Or(c.CommitTimeout, 10*time.Millisecond)
	c.LinkTimeout = cmp.Or(c.LinkTimeout, 3*time.Second)
	c.SnapshotInterval = cmp.Or(c.SnapshotInterval, 60*time.Second)
	c.SnapshotThreshold = cmp.Or(c.SnapshotThreshold, 8192)
	c.TrailingLogs = cmp.Or(c.TrailingLogs, 16384)
	c.MaxBacklog = cmp.Or(c.MaxBacklog, 16384)
	c.MaxBacklogBytes = cmp.Or(c.MaxBacklogBytes, 64<<20)
	c.MaxEntryBytes = cmp.Or(c.MaxEntryBytes, 512<<10)
	c.MaxEntryCommands = cmp.Or(c.MaxEntryCommands, 1024)
	c.MaxCommandBytes = cmp.Or(c.MaxCommandBytes, 8<<20)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 2)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate joins everything that is wrong with the configuration.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.ID == "" {
		fault("ID is empty")
	}
	if c.Dir == "" {
		fault("Dir is empty")
	}
	if c.Pack == nil {
		fault("Pack is nil")
	}
	if c.BindAddr == "" && c.Stream == nil {
		fault("BindAddr is empty")
	}
	if (c.ServerTLS == nil) != (c.ClientTLS == nil && c.DialTLS == nil) {
		fault("ServerTLS and ClientTLS must be given both or neither")
	}
	if c.LogStore != "" && c.LogStore != StoreBolt && c.LogStore != StoreWAL {
		fault("LogStore is %q, want %q or %q", c.LogStore, StoreBolt, StoreWAL)
	}
	if c.LeaderLease > c.HeartbeatTimeout {
		fault("LeaderLease %v is longer than HeartbeatTimeout %v", c.LeaderLease, c.HeartbeatTimeout)
	}
	if c.ElectionTimeout < c.HeartbeatTimeout {
		fault("ElectionTimeout %v is shorter than HeartbeatTimeout %v", c.ElectionTimeout, c.HeartbeatTimeout)
	}
	if c.MaxTimeout < c.HeartbeatTimeout {
		fault("MaxTimeout %v is shorter than HeartbeatTimeout %v", c.MaxTimeout, c.HeartbeatTimeout)
	}
	for name, n := range map[string]int{
		"MaxBacklog": c.MaxBacklog, "MaxBacklogBytes": c.MaxBacklogBytes, "MaxEntryBytes": c.MaxEntryBytes,
		"MaxEntryCommands": c.MaxEntryCommands, "MaxCommandBytes": c.MaxCommandBytes, "MaxInFlight": c.MaxInFlight,
	} {
		if n < 1 {
			fault("%s is %d, want at least 1", name, n)
		}
	}
	return errors.Join(append(faults, c.validateBootstrap())...)
}

func (c Config) validateBootstrap() error {
	switch len(c.Bootstrap) {
	case 0:
		return nil
	case 1, 3, 5:
	default:
		return fmt.Errorf("bootstrap list has %d servers, want 1, 3 or 5", len(c.Bootstrap))
	}
	seen := map[string]bool{}
	for _, s := range c.Bootstrap {
		if s.ID == "" || s.Addr == "" {
			return fmt.Errorf("bootstrap list has a server without id or address: %+v", s)
		}
		if seen[s.ID] || seen[s.Addr] {
			return fmt.Errorf("bootstrap list names %s at %s twice", s.ID, s.Addr)
		}
		seen[s.ID], seen[s.Addr] = true, true
	}
	if !seen[c.ID] {
		return fmt.Errorf("bootstrap list does not name this server, %s", c.ID)
	}
	return nil
}
