package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/coordinator/flows"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/notify"
	"github.com/mindcoordinator/mind/coordinator/output"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/raftnode"
	"github.com/mindcoordinator/mind/raftnode/stream"
)

// When the feature level is raised.
const (
	// RaiseAuto: as soon as all coordinators support a higher one.
	RaiseAuto = "auto"
	// RaiseManual: when an operator says so.
	RaiseManual = "manual"
)

// Config configures one coordinator. The zero value of an optional field selects its default.
type Config struct {
	// ID names this coordinator among the voters, such as "c1". Its certificate has the same name.
	ID string
	// DataDir holds the Raft log and snapshots. Only one coordinator may use it.
	DataDir string

	// Addresses to listen on. GossipAddr empty: no gossip (liveness of peers is then "unknown").
	GRPCAddr   string
	HTTPAddr   string
	RaftAddr   string
	GossipAddr string
	// Addresses at which others reach this coordinator; empty: the listening address.
	GRPCAdvertise   string
	HTTPAdvertise   string
	RaftAdvertise   string
	GossipAdvertise string

	// Peers are the initial voters, including this one. All initial voters must have the same list. Empty: this coordinator
	// joins a running cluster (JoinVia).
	Peers []Peer
	// JoinVia are gRPC addresses of running coordinators that make this one a voter.
	JoinVia []string

	// CertFile, KeyFile and CAFile enable mutual TLS on every link; all or none.
	CertFile string
	KeyFile  string
	CAFile   string
	// APISecret must be sent with each call of gateways and operators; empty: not checked.
	APISecret string
	// CredentialsKey encrypts the stored credentials of jobs, the same on all coordinators; empty: APISecret.
	CredentialsKey []byte
	// GossipKey (16, 24 or 32 bytes) encrypts gossip; empty: plain.
	GossipKey []byte
	// GossipJoin are gossip addresses of other members.
	GossipJoin []string

	// LogArchive is read if agents do not have the logs and metrics of a task, or no longer have them.
	LogArchive output.Archive
	// FlowArchive gets the contents of flows; the state keeps the current ones.
	FlowArchive flows.Archive

	// Webhooks says which URLs get notices of decisions, and what signs them. The same on all coordinators: the leader sends.
	Webhooks notify.Settings

	// LogStore is "wal" or "boltdb": a log of the other kind is moved at the start. Empty: "wal", but a log of an earlier version
	// stays in "boltdb" until the feature level was raised; see raftnode/store.
	LogStore string
	// Raise says when the feature level is raised after an upgrade: RaiseAuto (default) or RaiseManual.
	Raise  string
	Timers Timers
	Limits Limits

	// Program is the version of mind, as shown to operators.
	Program string

	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Registry takes the metrics, and /metrics serves it; nil: a registry of its own.
	Registry *prometheus.Registry

	// The fields below replace the environment of a coordinator in tests: the network (nil: TCP), the transport of
	// gossip (nil: UDP and TCP), and parts of Raft's configuration, changed by RaftTuning (nil: unchanged). Observe is
	// called with every entry that this replica applies, under the rules of fsm.Machine.OnApply. Tamper replaces the
	// entries that this replica applies, so that it differs from the others (nil: unchanged). WebhookTransport sends webhooks.
	Network         Network
	GossipTransport gossip.Transport
	RaftTuning      func(*raftnode.Config)
	Observe         func(*fsm.View, []event.Event)
	Tamper          func(index uint64, entry []byte) []byte

	WebhookTransport http.RoundTripper
}

// Network listens and dials for a coordinator.
type Network = stream.Network

// Peer is one initial voter.
type Peer struct {
	ID       string
	RaftAddr string
	GRPCAddr string
	HTTPAddr string
}

// Timers are the durations that a coordinator uses.
type Timers struct {
	// Raft's three timeouts, and the limit to which the first is raised; 0: raftnode's defaults.
	RaftHeartbeat   time.Duration
	RaftElection    time.Duration
	RaftLeaderLease time.Duration
	RaftTimeoutMax  time.Duration
	// AgentHeartbeat is the interval at which agents renew; default 1 s.
	AgentHeartbeat time.Duration
	// UnreachableAfter is how long a node may be silent before it is shown as unreachable; default 5 s.
	UnreachableAfter time.Duration
	// LeaderWait limits how long a call waits for a leader; default 2 s.
	LeaderWait time.Duration
	// SelfCheck is how often a replica compares its state with the others; default 3 s.
	SelfCheck time.Duration
	// Denials is how often denied calls are recorded; default 1 min.
	Denials time.Duration
	// Shutdown limits how long open calls may take to finish at shutdown; default 3 s.
	Shutdown time.Duration
}

// Limits limit one pass or one entry.
type Limits struct {
	// Placements per command of a scheduling pass; default 512.
	Placements int
	// EntryBytes bounds one log entry; default 512 KiB.
	EntryBytes int
	// EstimateRest is the minimum pause before the next forecast for the same tenant, as a multiple of the time that the
	// last one took; default 20, negative: no pause.
	EstimateRest int
	// AuditRecords is how many of each kind the cluster keeps; the leader's setting counts. 0: unchanged, initially
	// fsm.DefaultKeepAudit.
	AuditRecords int
}

// Limits of Limits.AuditRecords: fewer are useless, and with more the state takes long to copy.
const (
	minAuditRecords = 1000
	maxAuditRecords = 10_000_000
)

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Timers.AgentHeartbeat, time.Second)
	def(&c.Timers.UnreachableAfter, 5*time.Second)
	def(&c.Timers.LeaderWait, 2*time.Second)
	def(&c.Timers.SelfCheck, 3*time.Second)
	def(&c.Timers.Denials, time.Minute)
	def(&c.Timers.Shutdown, 3*time.Second)
	if c.Limits.Placements == 0 {
		c.Limits.Placements = 512
	}
	if c.Limits.EntryBytes == 0 {
		c.Limits.EntryBytes = 512 << 10
	}
	if c.Limits.EstimateRest == 0 {
		c.Limits.EstimateRest = forecast.DefaultRest
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Network == nil {
		c.Network = stream.TCP{}
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	return c
}

// Validate returns all faults of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	need := func(name, value string) {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s is required", name))
		}
	}
	need("id", c.ID)
	need("data_dir", c.DataDir)
	need("grpc_addr", c.GRPCAddr)
	need("http_addr", c.HTTPAddr)
	need("raft_addr", c.RaftAddr)
	if c.LogArchive.URL != "" {
		if err := archive.Check(c.LogArchive.URL); err != nil {
			errs = append(errs, fmt.Errorf("log_archive: %w", err))
		}
	}
	if c.FlowArchive.URL != "" {
		if err := archive.Check(c.FlowArchive.URL); err != nil {
			errs = append(errs, fmt.Errorf("flow_archive: %w", err))
		}
	}
	if n := countSet(c.CertFile, c.KeyFile, c.CAFile); n != 0 && n != 3 {
		errs = append(errs, errors.New("cert_file, key_file and ca_file: give all three or none"))
	}
	switch len(c.GossipKey) {
	case 0, 16, 24, 32:
	default:
		errs = append(errs, fmt.Errorf("gossip_key has %d bytes; it must have 16, 24 or 32", len(c.GossipKey)))
	}
	if n := len(c.CredentialsKey); n != 0 && n < 16 {
		errs = append(errs, fmt.Errorf("credentials_key has %d bytes; it must have at least 16", n))
	}
	if n := c.Limits.AuditRecords; n != 0 && (n < minAuditRecords || n > maxAuditRecords) {
		errs = append(errs, fmt.Errorf("audit_records %d: it must be %d to %d", n, minAuditRecords, maxAuditRecords))
	}
	if err := c.Webhooks.Validate(); err != nil {
		errs = append(errs, err)
	}
	switch c.Raise {
	case "", RaiseAuto, RaiseManual:
	default:
		errs = append(errs, fmt.Errorf("raise %q: it must be auto or manual", c.Raise))
	}
	switch c.LogStore {
	case "", "boltdb", "wal":
	default:
		errs = append(errs, fmt.Errorf("log_store %q: it must be wal or boltdb", c.LogStore))
	}
	if len(c.Peers) > 0 {
		self := false
		seen := map[string]bool{}
		for _, p := range c.Peers {
			self = self || p.ID == c.ID
			if seen[p.ID] {
				errs = append(errs, fmt.Errorf("peers contain %q twice", p.ID))
			}
			seen[p.ID] = true
			if p.ID == "" || p.RaftAddr == "" || p.GRPCAddr == "" {
				errs = append(errs, fmt.Errorf("peer %q needs id, raft_addr and grpc_addr", p.ID))
			}
		}
		if !self {
			errs = append(errs, fmt.Errorf("peers do not contain this coordinator (%s)", c.ID))
		}
	}
	if t := c.withDefaults().Timers; t.UnreachableAfter < 2*t.AgentHeartbeat {
		errs = append(errs, fmt.Errorf("unreachable_after (%s) must be at least twice the agents' heartbeat (%s)", t.UnreachableAfter, t.AgentHeartbeat))
	}
	return errors.Join(errs...)
}

func countSet(values ...string) int {
	n := 0
	for _, v := range values {
		if v != "" {
			n++
		}
	}
	return n
}
