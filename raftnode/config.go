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

// StateMachine is a state machine that a node can replicate.
type StateMachine = machine.StateMachine

// Snapshot is a state that does not change while it is written.
type Snapshot = machine.Snapshot

// Server is one replica: its id and the address that its raft listener advertises.
type Server struct {
	ID   string
	Addr string
}

// The values of Config.LogStore.
const (
	StoreWAL  = store.WAL
	StoreBolt = store.Bolt
)

// Config configures a node. The zero value of each field selects its default, except for ID, Dir, Pack and BindAddr,
// which are required.
type Config struct {
	// ID is the id of this replica. It must never change.
	ID string
	// Dir holds the log and the snapshots.
	Dir string
	// BindAddr is the host:port to listen on. AdvertiseAddr is the address at which the others reach this replica;
	// empty: the bound address.
	BindAddr      string
	AdvertiseAddr string
	// ServerTLS and ClientTLS secure the links between replicas; give both or neither. The peer's certificate must
	// always have the role of a coordinator, in addition to what they verify. DialTLS, if it is not nil, replaces
	// ClientTLS: it is called before each handshake, so that authorities can change.
	ServerTLS *tls.Config
	ClientTLS *tls.Config
	DialTLS   func() *tls.Config
	// Bootstrap is the first membership: 1, 3 or 5 servers, the same list on each of them. Only a node without state
	// uses it. Without the list such a node waits until a leader adds it.
	Bootstrap []Server
	// MayBootstrap is called before Bootstrap is used and before anything is started, so it may take long. It returns
	// false if there is a cluster already; then the node waits until a leader adds it. nil means that Bootstrap may be
	// used.
	MayBootstrap func() (bool, error)
	// LogStore is StoreWAL or StoreBolt: a log of the other kind is moved when the node is opened. Empty: see store.Config.
	LogStore string

	// HeartbeatTimeout (400 ms) is how long a follower waits for its leader before it stands for election; it waits up
	// to twice as long. ElectionTimeout (400 ms) limits the time of an election. LeaderLease (400 ms) is how long a
	// leader leads without answers of a majority. A follower does not answer while its disk writes, so writes that take
	// longer than the lease make the leader step down. On a slow machine the replica lengthens all three, up to a
	// heartbeat timeout of MaxTimeout (16 times HeartbeatTimeout); see package pace.
	HeartbeatTimeout time.Duration
	ElectionTimeout  time.Duration
	LeaderLease      time.Duration
	MaxTimeout       time.Duration
	// CommitTimeout (10 ms) is how long after the last write of a burst the followers learn that it is committed; it
	// may take up to twice as long. The leader sends each follower an empty message once in this time, and 20 times
	// less often after a second without a proposal.
	CommitTimeout time.Duration
	// LinkTimeout (3 s) limits the time for dialling a peer, and for one message to it.
	LinkTimeout time.Duration

	// A snapshot is taken when there are SnapshotThreshold (8192) entries since the last one. This is checked every
	// SnapshotInterval (60 s, up to twice that). The log keeps TrailingLogs (16384) entries before a snapshot, for
	// replicas that lag, and for package replay: it can reach states since the oldest snapshot that the log continues.
	SnapshotInterval  time.Duration
	SnapshotThreshold uint64
	TrailingLogs      uint64

	// Pack packs commands into one log entry. It is called on the leader.
	Pack func(now time.Time, commands [][]byte) []byte
	// MaxBacklog (16384) and MaxBacklogBytes (64 MiB) limit the number and size of the commands that wait to be packed.
	// Beyond these limits Propose returns ErrBacklogFull.
	MaxBacklog      int
	MaxBacklogBytes int
	// MaxEntryBytes (512 KiB) and MaxEntryCommands (1024) limit the size and number of the commands in one entry. A
	// larger command has an entry of its own, up to MaxCommandBytes (8 MiB).
	MaxEntryBytes    int
	MaxEntryCommands int
	MaxCommandBytes  int
	// MaxInFlight (2) limits the number of entries that are sent and not applied yet. While there are fewer, a command
	// is sent at once; otherwise commands gather for the next entry.
	MaxInFlight int

	Logger  *slog.Logger
	Metrics prometheus.Registerer

	// Network carries the connections below TLS; nil: TCP.
	Network stream.Network
	// Stream replaces the listener and the dialler, including TLS, in tests.
	Stream raft.StreamLayer
	// Stores replaces the log and the snapshots below Dir, in tests.
	Stores func() (Store, raft.SnapshotStore, error)
	// WrapStore wraps the log store, in tests with a faulty disk.
	WrapStore func(Store) Store
	// Now is the time for Pack; nil: time.Now.
	Now func() time.Time
}

// Store is where a node keeps its log and its votes.
type Store = store.Store

// withDefaults sets fields that are zero to their defaults.
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

// Validate returns all faults of the configuration.
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
