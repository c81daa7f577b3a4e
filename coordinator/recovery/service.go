package recovery

import (
	"log/slog"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/raftnode"
)

// Config configures a Service.
type Config struct {
	Replica *replica.Replica
	Machine *fsm.Machine
	// Listed are the initial voters, in the order of the configuration.
	Listed []coordinators.Coordinator
	// RaftAddr is the Raft address of this coordinator for the others.
	RaftAddr string
	DataDir  string
	LogStore string
	// Program is the version of mind, recorded in saved states.
	Program string
	// Unready returns why this replica should not be used; empty: it should.
	Unready func(raftnode.Stats) string
	Log     *slog.Logger
}

// Service starts a coordinator that has no data, and implements the methods of OperatorService about the data of
// replicas.
type Service struct {
	replica                              *replica.Replica
	machine                              *fsm.Machine
	listed                               []coordinators.Coordinator
	raftAddr, dataDir, logStore, program string
	unready                              func(raftnode.Stats) string
	log                                  *slog.Logger

	beginning beginsWith
}

// New makes a service.
func New(c Config) *Service {
	return &Service{
		replica: c.Replica, machine: c.Machine, listed: c.Listed, raftAddr: c.RaftAddr, dataDir: c.DataDir, logStore: c.LogStore,
		program: c.Program, unready: c.Unready, log: c.Log,
	}
}

// NotUp returns why the coordinator is still starting.
func (s *Service) NotUp() string { return s.beginning.text() }

// Found returns gRPC addresses through which this coordinator joins the cluster that it found at its start.
func (s *Service) Found() []string { return s.beginning.joinVia }
