package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/agent/fitness"
	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/pki"
)

// Config configures an agent. The comment of a field says what its zero value means; NodeID, DataDir and Coordinators are
// required.
type Config struct {
	// NodeID names the node in the cluster; it must be the common name of the
	// certificate in TLS.
	NodeID string
	// DataDir holds the task directories, the outputs of jobs that set no output directory, and the agent's own state. Only
	// one agent may use it at a time.
	DataDir string
	// Coordinators are gRPC addresses, host:port; any of them may lead.
	Coordinators []string

	// GRPCAddr is where TaskService listens; ":0" picks a port. Empty: 127.0.0.1:0.
	GRPCAddr string
	// GRPCAdvertise is the address reported to the coordinators; empty: the bound one.
	GRPCAdvertise string
	// HTTPAddr serves /metrics, /health and /health/ready; empty: no listener.
	HTTPAddr string
	// HTTPAdvertise is the address reported to the coordinators; empty: the bound one.
	HTTPAdvertise string

	// GossipAddr is where gossip listens; empty: gossip is disabled.
	GossipAddr string
	// GossipAdvertise is the address sent to the other members; empty: GossipAddr.
	GossipAdvertise string
	// GossipKey encrypts gossip; 16, 24 or 32 bytes, or empty.
	GossipKey []byte
	// GossipJoin are gossip addresses of other members.
	GossipJoin []string

	// GPUs selects the GPUs: "auto" or "" (NVML, then nvidia-smi, then none), "none", or a simulated set such as
	// "8xH100" or "4xA100,2xH100".
	GPUs string
	// CPUs the node offers; 0: those of the machine, or 64 with simulated GPUs.
	CPUs int
	// MemMB is the memory that the node offers, in MiB; 0: that of the machine, or 512 GiB with simulated GPUs.
	MemMB int
	// Labels are matched with the node selectors of jobs.
	Labels map[string]string
	// Hostname reported to the coordinators; empty: the machine's.
	Hostname string

	// TLS is the agent's certificate, key and authority. The zero value means connections without authentication: for tests
	// only.
	TLS pki.Files

	// StopTasksOnExit stops all tasks when Run's context ends. By default they keep running, and the next agent on DataDir
	// adopts them.
	StopTasksOnExit bool
	// StopGrace is the grace period of StopTasksOnExit; 0: 2 s.
	StopGrace time.Duration
	// MaxLaunches limits how many tasks are launched at once; 0: 16.
	MaxLaunches int
	// SpareShims is the number of idle shims kept ready, so that launches need not start them; 0: 4, negative: none.
	SpareShims int
	// KeepTasks limits how many ended tasks keep their directory (logs, metrics); 0: 1,000.
	KeepTasks int
	// KeepTasksFor limits how long ended tasks keep their directory; 0: 7 days.
	KeepTasksFor time.Duration
	// KeepOutputsFor limits how long outputs below DataDir are kept after their last change; 0: forever. Outputs with a
	// registered checkpoint are always kept.
	KeepOutputsFor time.Duration
	// LogBytes limits the log of one task; its oldest segments are removed first.
	// 0: 1 GiB.
	LogBytes int64
	// MetricsBytes and EventsBytes limit how much is read from the start of a task's metrics and events file. 0: 256 MiB
	// and 16 MiB.
	MetricsBytes, EventsBytes int64
	// LogArchive keeps logs and metrics when the node is gone.
	LogArchive LogArchive
	// CheckpointArchive keeps checkpoints when the node is gone.
	CheckpointArchive CheckpointArchive
	// CheckpointServeRate limits, in bytes per second, how fast other nodes fetch this node's checkpoints; 0: no limit.
	CheckpointServeRate int64
	// Data configures where the data of jobs may come from.
	Data inputs.Config
	// File is the configuration file, which may have secrets; empty: there is none.
	File string
	// PrivateDirs are directories that no job may read through this agent, beside its own: no working directory, checkpoint
	// or data source of a job may lie there.
	PrivateDirs []string
	// Isolation is how far tasks are kept apart, a level of package isolation. Empty: the strongest one that needs no
	// configuration and that the machine can give.
	Isolation string
	// CgroupParent is a cgroup v2 directory, delegated to the agent, in which tasks get their groups. Empty: the one that a
	// service manager has delegated, or one that root makes.
	CgroupParent string
	// Users are the users of the system as which the tasks of tenants run, by name or as UID:GID, and DefaultUser is that of all
	// other tenants. Without either, tasks run as the user of the agent. MinUID is the lowest user id of tasks; 0: 1000.
	Users       map[string]string
	DefaultUser string
	MinUID      int
	// TaskPaths are the directories in which jobs may write, beside their own. Empty: all but those of the system, as far as the
	// user of a task may.
	TaskPaths []string
	// Mounts are directories of the machine that tasks have at the isolation full, as SOURCE:TARGET:ro or SOURCE:TARGET:rw. ShmMB is
	// the size of their /dev/shm in MiB; 0: half of the memory that a task asked for, or of the machine's.
	Mounts []string
	ShmMB  int
	// MountRoots are directories below which the sources of mounts of jobs may be, each perhaps with :ro; none: jobs mount nothing.
	MountRoots []string
	// Devices are paths of devices that tasks may open, beside the usual ones and the GPUs of their lease.
	Devices []string
	// JobDiskMB limits, in MiB, what one job takes on the disk of DataDir: outputs, checkpoints, metrics, events and its upload. 0: nothing
	// does. It needs a file system with project quotas.
	JobDiskMB int
	// MinFreeDisk is the space that must be free on the disk of DataDir for a new task.
	MinFreeDisk fitness.Watermark
	// ShimExecutable is the program run as "PROGRAM shim --dir DIR"; empty:
	// the running executable. It must import package agent/shim.
	ShimExecutable string

	// Version is reported to the coordinators.
	Version string
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// Metrics is the registry for the agent's metrics, which /metrics serves; nil: a registry of its own.
	Metrics *prometheus.Registry

	// Leases are protocol constants that all nodes and coordinators share; only tests change them.
	Leases lease.Timing
	// Machine replaces parts of the machine in tests.
	Machine Machine
}

// Validate returns all faults of the configuration, joined.
func (c Config) Validate() error {
	var faults []error
	if c.NodeID == "" {
		faults = append(faults, errors.New("node id is empty"))
	}
	if c.DataDir == "" {
		faults = append(faults, errors.New("data directory is empty"))
	}
	if err := isolation.Check(c.Isolation); err != nil {
		faults = append(faults, err)
	}
	if len(c.Coordinators) == 0 {
		faults = append(faults, errors.New("no coordinator address"))
	}
	for name, n := range map[string]int{"cpus": c.CPUs, "memory": c.MemMB, "max launches": c.MaxLaunches, "kept tasks": c.KeepTasks, "job_disk_mb": c.JobDiskMB} {
		if n < 0 {
			faults = append(faults, fmt.Errorf("%s is negative", name))
		}
	}
	for name, n := range map[string]int64{"log bytes": c.LogBytes, "metrics bytes": c.MetricsBytes, "events bytes": c.EventsBytes} {
		if n < 0 {
			faults = append(faults, fmt.Errorf("%s is negative", name))
		}
	}
	for name, d := range map[string]time.Duration{"keep_outputs_for": c.KeepOutputsFor, "keep_tasks_for": c.KeepTasksFor, "stop_grace": c.StopGrace} {
		if d < 0 {
			faults = append(faults, fmt.Errorf("%s is negative", name))
		}
	}
	if err := c.LogArchive.validate(); err != nil {
		faults = append(faults, err)
	}
	if err := c.CheckpointArchive.validate(); err != nil {
		faults = append(faults, err)
	}
	if c.CheckpointServeRate < 0 {
		faults = append(faults, errors.New("the rate at which checkpoints are served is negative"))
	}
	if err := c.Data.Validate(c.DataDir); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	if c.GRPCAddr == "" {
		c.GRPCAddr = "127.0.0.1:0"
	}
	if c.StopGrace == 0 {
		c.StopGrace = 2 * time.Second
	}
	if c.MaxLaunches == 0 {
		c.MaxLaunches = 16
	}
	if c.SpareShims == 0 {
		c.SpareShims = 4
	}
	if c.KeepTasks == 0 {
		c.KeepTasks = 1000
	}
	if c.KeepTasksFor == 0 {
		c.KeepTasksFor = 7 * 24 * time.Hour
	}
	if c.LogBytes == 0 {
		c.LogBytes = 1 << 30
	}
	if c.MetricsBytes == 0 {
		c.MetricsBytes = 256 << 20
	}
	if c.EventsBytes == 0 {
		c.EventsBytes = 16 << 20
	}
	if c.ShimExecutable == "" {
		c.ShimExecutable = "/proc/self/exe"
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Machine.Network == nil {
		c.Machine.Network = tcp{}
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	return c
}
