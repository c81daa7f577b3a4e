package whatif

import (
	"fmt"
	"math"
	"time"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

// Change is a supposed change of a job and its surroundings. Fields that are nil change nothing.
type Change struct {
	// GPUs is the number of all nodes together, Nodes the size of the gang. Fraction is in thousandths of one GPU.
	GPUs, Nodes, Fraction *int
	// CPUs and MemMB are per node, GPUMemMB per GPU.
	CPUs, MemMB, GPUMemMB *uint32
	GPUType, Selector     *string
	Topology              *uint8
	Queue                 *string
	Priority              *uint8
	MaxRuntime            *time.Duration
	// Released: the job is not held, neither until a time nor for other jobs.
	Released bool
	// QuotaGPUs and QuotaRunning are the limits of the job's tenant, QueueGPUs is the limit of its queue; negative: no
	// limit.
	QuotaGPUs, QuotaRunning, QueueGPUs *int32
	// QuotaHours is the limit of GPU hours of the job's tenant; negative: no limit. QuotaTypes are its limits by type.
	QuotaHours *int32
	QuotaTypes *typed.Limits
	// NoQueueTypes: the job's queue has no limits by type.
	NoQueueTypes bool
	// NoMaintenance: there is no maintenance. NoReservations: other tenants have no reservations. NoProtection: the
	// policy protects no running job from a higher priority.
	NoMaintenance, NoReservations, NoProtection bool
	// Cancel are jobs of the same tenant that are canceled.
	Cancel []ident.Job
}

// job returns the changed job.
func (c *Change) job(j *work.Job) (*work.Job, error) {
	out := *j
	s := &out.Shape
	set(&s.GPUMemMB, c.GPUMemMB)
	set(&s.CPUs, c.CPUs)
	set(&s.MemMB, c.MemMB)
	set(&s.GPUType, c.GPUType)
	set(&s.Selector, c.Selector)
	set(&s.Topology, c.Topology)
	set(&out.Queue, c.Queue)
	set(&out.Priority, c.Priority)
	if c.MaxRuntime != nil {
		out.MaxRuntime = int64(*c.MaxRuntime)
		out.Term = work.TermOf(&out)
	}
	if c.Released {
		out.Held = 0
	}
	if c.Fraction != nil {
		s.FractionMilli, s.GPUs, s.Nodes = uint16(*c.Fraction), 0, 1
		return &out, nil
	}
	if c.GPUs == nil && c.Nodes == nil {
		return &out, nil
	}
	nodes := max(1, int(s.Nodes))
	gpus := nodes * int(s.GPUs)
	set(&nodes, c.Nodes)
	set(&gpus, c.GPUs)
	if gpus%nodes != 0 {
		return nil, fmt.Errorf("%d GPUs cannot be shared equally by %d nodes: give gpus and nodes that can", gpus, nodes)
	}
	if gpus/nodes > work.MaxGPUs || nodes > math.MaxUint16 {
		return nil, fmt.Errorf("%d GPUs on each of %d nodes is too much: a node has at most %d", gpus/nodes, nodes, work.MaxGPUs)
	}
	s.Nodes, s.GPUs = uint16(nodes), uint16(gpus/nodes)
	if c.GPUs != nil {
		s.FractionMilli = 0
	}
	return &out, nil
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
