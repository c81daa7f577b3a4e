package work

import (
	"math/bits"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

// GPUMilli is the size of the lease, in thousandths of a GPU.
func (l *Lease) GPUMilli() int {
	if l.FractionMilli > 0 {
		return int(l.FractionMilli)
	}
	return 1000 * bits.OnesCount64(l.GPUs)
}

func (u *NodeUse) Add(l *Lease) {
	u.Tasks++
	u.CPUs += l.CPUs
	u.MemMB += l.MemMB
	if l.FractionMilli == 0 {
		u.Exclusive |= l.GPUs
		return
	}
	for m := l.GPUs; m != 0; m &= m - 1 {
		u.Milli[bits.TrailingZeros64(m)] += l.FractionMilli
	}
	u.Shared |= l.GPUs
}

func (u *NodeUse) Remove(l *Lease) {
	u.Tasks--
	u.CPUs -= l.CPUs
	u.MemMB -= l.MemMB
	if l.FractionMilli == 0 {
		u.Exclusive &^= l.GPUs
		return
	}
	for m := l.GPUs; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		u.Milli[i] -= l.FractionMilli
		if u.Milli[i] == 0 {
			u.Shared &^= 1 << i
		}
	}
}

// MaxGPUs is the number of GPUs that a node can have: sets of GPUs are 64-bit masks.
const MaxGPUs = 64

// Node is a machine with an agent.
type Node struct {
	ID           string            `cbor:"1,keyasint,omitempty"`
	Hostname     string            `cbor:"2,keyasint,omitempty"`
	BootID       string            `cbor:"3,keyasint,omitempty"`
	AgentVersion string            `cbor:"4,keyasint,omitempty"`
	GRPCAddr     string            `cbor:"5,keyasint,omitempty"`
	HTTPAddr     string            `cbor:"6,keyasint,omitempty"`
	GPUs         []GPU             `cbor:"7,keyasint,omitempty"`
	CPUs         uint32            `cbor:"8,keyasint,omitempty"`
	MemMB        uint32            `cbor:"9,keyasint,omitempty"`
	Labels       map[string]string `cbor:"10,keyasint,omitempty"`
	// State follows from UnreachableSince, LostSince, Drain and the leases; commands do not set it.
	State  v1.NodeState_Value `cbor:"11,keyasint,omitempty"`
	Reason reason.Reason      `cbor:"12,keyasint,omitempty"`
	// Drain is set while an operator wants the node empty.
	Drain            *Drain `cbor:"13,keyasint,omitempty"`
	RegisteredAt     int64  `cbor:"14,keyasint,omitempty"`
	UpdatedAt        int64  `cbor:"15,keyasint,omitempty"`
	Revision         uint64 `cbor:"16,keyasint,omitempty"`
	UnreachableSince int64  `cbor:"17,keyasint,omitempty"`
	// Incarnation numbers this start of the agent in gossip: a vote about an older one says nothing. 0: unknown.
	Incarnation uint64 `cbor:"18,keyasint,omitempty"`
	// RosterSince is the index at which it joined the roster; 0: it is not on it.
	RosterSince uint64 `cbor:"19,keyasint,omitempty"`
	// RosterAcked is the newest version of the roster that its agent has on disk, as far as is known.
	RosterAcked uint64 `cbor:"20,keyasint,omitempty"`
	// EnabledAt is the index at which an operator last enabled it.
	EnabledAt uint64 `cbor:"21,keyasint,omitempty"`
	// LostSince is when a majority declared it lost, Unix nanoseconds of log time; 0: it is not.
	LostSince int64 `cbor:"22,keyasint,omitempty"`
	// Unheard: it has not registered since the cluster was recovered.
	Unheard bool `cbor:"23,keyasint,omitempty"`
	// Archive: its agent takes orders to upload checkpoints to an archive, and to remove them from there.
	Archive bool `cbor:"24,keyasint,omitempty"`
	// Unfit is why its agent cannot start tasks, as the agent said; empty: it can.
	Unfit reason.Reason `cbor:"25,keyasint,omitempty"`
}

// Drain is an operator's wish to empty a node.
type Drain struct {
	Since int64 `cbor:"1,keyasint,omitempty"`
	// Deadline is when what still runs is stopped, in Unix nanoseconds of log time; 0: never.
	Deadline int64         `cbor:"2,keyasint,omitempty"`
	Force    bool          `cbor:"3,keyasint,omitempty"`
	Reason   reason.Reason `cbor:"4,keyasint,omitempty"`
}

// GPU is one device of a node.
type GPU struct {
	UUID  string `cbor:"1,keyasint,omitempty"`
	Index uint8  `cbor:"2,keyasint,omitempty"`
	Model string `cbor:"3,keyasint,omitempty"`
	Type  string `cbor:"4,keyasint,omitempty"`
	MemMB uint32 `cbor:"5,keyasint,omitempty"`
	PCI   string `cbor:"6,keyasint,omitempty"`
	NUMA  int8   `cbor:"7,keyasint,omitempty"`
	// NVLink is the set of indices reached over NVLink.
	NVLink       uint64             `cbor:"8,keyasint,omitempty"`
	Health       v1.GpuHealth_Value `cbor:"9,keyasint,omitempty"`
	HealthReason reason.Reason      `cbor:"10,keyasint,omitempty"`
	Simulated    bool               `cbor:"11,keyasint,omitempty"`
	// MIG is the profile of a slice of a GPU, such as 1g.10gb, and Instance is where it is: GPU UUID/GPU instance/compute instance.
	// Both are empty for a whole GPU.
	MIG      string `cbor:"12,keyasint,omitempty"`
	Instance string `cbor:"13,keyasint,omitempty"`
}

// NodeUse is the part of a node that leases and claims take.
type NodeUse struct {
	// Exclusive is the set of GPUs leased whole.
	Exclusive uint64
	// Shared is the set of GPUs leased in fractions; Milli says how much of each.
	Shared      uint64
	Milli       [MaxGPUs]uint16
	CPUs, MemMB uint32
	Tasks       int
	// Claimed is kept for jobs that wait for others to leave. GPUs in it may still be leased.
	Claimed Claimed
}

// FreeCPUs is the number of free CPUs of the node.
func (u *NodeUse) FreeCPUs(n *Node) uint32 {
	return uint32(max(0, int64(n.CPUs)-int64(u.CPUs)-int64(u.Claimed.CPUs)))
}

// FreeMemMB is the free memory of the node.
func (u *NodeUse) FreeMemMB(n *Node) uint32 {
	return uint32(max(0, int64(n.MemMB)-int64(u.MemMB)-int64(u.Claimed.MemMB)))
}

// Claimed is the part of a node that a claim keeps.
type Claimed struct {
	GPUs        uint64
	CPUs, MemMB uint32
}

// Claim adds a claim, which has no GPU in common with others.
func (u *NodeUse) Claim(c Claimed) {
	u.Claimed.GPUs |= c.GPUs
	u.Claimed.CPUs += c.CPUs
	u.Claimed.MemMB += c.MemMB
}

// Unclaim takes a claim away.
func (u *NodeUse) Unclaim(c Claimed) {
	u.Claimed.GPUs &^= c.GPUs
	u.Claimed.CPUs -= c.CPUs
	u.Claimed.MemMB -= c.MemMB
}

// Lease is the right of one task to GPUs on one node.
type Lease struct {
	Job           ident.Job `cbor:"1,keyasint,omitempty"`
	Rank          uint16    `cbor:"2,keyasint,omitempty"`
	Attempt       uint32    `cbor:"3,keyasint,omitempty"`
	Node          string    `cbor:"4,keyasint,omitempty"`
	GPUs          uint64    `cbor:"5,keyasint,omitempty"`
	FractionMilli uint16    `cbor:"6,keyasint,omitempty"`
	CPUs          uint32    `cbor:"7,keyasint,omitempty"`
	MemMB         uint32    `cbor:"8,keyasint,omitempty"`
	// Token is the fencing token: the index of the grant.
	Token     uint64 `cbor:"9,keyasint,omitempty"`
	GrantedAt int64  `cbor:"10,keyasint,omitempty"`
}

// Queue is where jobs wait.
type Queue struct {
	Name      string `cbor:"1,keyasint,omitempty"`
	Weight    uint32 `cbor:"2,keyasint,omitempty"`
	CreatedAt int64  `cbor:"3,keyasint,omitempty"`
	UpdatedAt int64  `cbor:"4,keyasint,omitempty"`
	Revision  uint64 `cbor:"5,keyasint,omitempty"`
	// MaxGPUs bounds the GPUs that the leases of its jobs hold together; 0: no limit.
	MaxGPUs uint32 `cbor:"6,keyasint,omitempty"`
	// Parent is the queue that it is a part of; empty: none. The GPUs of its jobs count for the parent, too.
	Parent string `cbor:"7,keyasint,omitempty"`
	// Moved is the index at which it got this parent: what was granted before it was not measured by the parent's limit.
	Moved uint64 `cbor:"8,keyasint,omitempty"`
	// MaxByType bounds the GPUs of each type that they hold together.
	MaxByType typed.Limits `cbor:"9,keyasint,omitempty"`
	// Guaranteed is how many GPUs it gets back from queues that have borrowed them when it has work; 0: none.
	Guaranteed uint32 `cbor:"10,keyasint,omitempty"`
}

// Amount is the size of the node.
func (n *Node) Amount() accounts.Amount {
	return accounts.Amount{GPUMilli: 1000 * uint64(len(n.GPUs)), CPUs: uint64(n.CPUs), Mem: accounts.Mem(uint64(n.MemMB))}
}

// Timer is the deadline of a drain that is still to be enforced; 0: none.
func (n *Node) Timer() int64 {
	if n.Drain != nil && !n.Drain.Force {
		return n.Drain.Deadline
	}
	return 0
}

// DrainReason is the reason in the row of a node while it is drained.
func DrainReason(d *Drain) reason.Reason {
	switch {
	case d == nil:
		return ""
	case d.Reason == "":
		return reason.New(reason.DrainedByOperator)
	}
	return d.Reason
}

// GPUType is the type of the GPU with an index; empty: it has none, or there is no such GPU.
func (n *Node) GPUType(index uint8) string {
	if int(index) < len(n.GPUs) && n.GPUs[index].Index == index {
		return n.GPUs[index].Type
	}
	for i := range n.GPUs {
		if n.GPUs[i].Index == index {
			return n.GPUs[i].Type
		}
	}
	return ""
}
