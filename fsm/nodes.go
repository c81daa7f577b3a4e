package fsm

import (
	"iter"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	recordNode     = 10
	recordGPUModel = 11
)

// gpuModel is a kind of GPU that some node once reported.
type gpuModel struct {
	Model string `cbor:"1,keyasint,omitempty"`
	Type  string `cbor:"2,keyasint,omitempty"`
}

type nodeTables struct {
	rows   table[string, *Node]
	models table[gpuModel, *gpuModel]
	// timers are the deadlines of drains; away are the nodes that cannot be reached.
	timers index[nodeTimer]
	away   index[string]
	// unheard are those that have not registered since the cluster was recovered.
	unheard index[string]
}

type nodeTimer struct {
	at int64
	id string
}

var nodeDomain = domain{
	name: "nodes",
	commands: []commandDef{
		defineCommand[RegisterNode]("RegisterNode"),
		defineCommand[SetNode]("SetNode"),
		defineCommand[LoseNode]("LoseNode"),
		defineCommand[AckRoster]("AckRoster"),
	},
	records: []recordDef{
		defineRecords(recordNode, "node", func(s *state) *table[string, *Node] { return &s.nodes.rows },
			func(s *state, n *Node) error {
				n.ID = s.work.name(n.ID)
				s.putNode(nil, n)
				return nil
			}),
		defineRecords(recordGPUModel, "GPU model", func(s *state) *table[gpuModel, *gpuModel] { return &s.nodes.models },
			func(s *state, g *gpuModel) error { s.nodes.models.put(*g, g); return nil }),
	},
	open: func(s *state) {
		s.nodes = nodeTables{
			rows: newTable[string, *Node](recordNode, func(a, b string) bool { return a < b }),
			models: newTable[gpuModel, *gpuModel](recordGPUModel, func(a, b gpuModel) bool {
				return a.Type < b.Type || a.Type == b.Type && a.Model < b.Model
			}),
			timers: newIndex(func(a, b nodeTimer) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
			away:   newIndex(func(a, b string) bool { return a < b }),

			unheard: newIndex(func(a, b string) bool { return a < b }),
		}
	},
	freeze: func(s, from *state) {
		f := &from.nodes
		s.nodes = nodeTables{
			rows: f.rows.freeze(), models: f.models.freeze(),
			timers: f.timers.freeze(), away: f.away.freeze(), unheard: f.unheard.freeze(),
		}
	},
	check: checkNodes,
}

// timer is the deadline of a drain that is still to be enforced; 0: none.
func (n *Node) timer() int64 {
	if n.Drain != nil && !n.Drain.Force {
		return n.Drain.Deadline
	}
	return 0
}

func (s *state) putNode(old, n *Node) {
	s.nodes.rows.put(n.ID, n)
	if old == nil {
		old = &noNode
	}
	if was, is := old.timer(), n.timer(); was != is {
		if was != 0 {
			s.nodes.timers.delete(nodeTimer{was, n.ID})
		}
		if is != 0 {
			s.nodes.timers.put(nodeTimer{is, n.ID})
		}
	}
	if was, is := old.UnreachableSince != 0, n.UnreachableSince != 0; was != is {
		if is {
			s.nodes.away.put(n.ID)
		} else {
			s.nodes.away.delete(n.ID)
		}
	}
	if old.Unheard != n.Unheard {
		if n.Unheard {
			s.nodes.unheard.put(n.ID)
		} else {
			s.nodes.unheard.delete(n.ID)
		}
	}
}

var noNode Node

// Node returns a node by its id.
func (s *state) Node(id string) (*Node, bool) { return s.nodes.rows.get(id) }

// Nodes iterates the nodes by id.
func (s *state) Nodes() iter.Seq[*Node] { return s.nodes.rows.rows() }

// NodeCount is how many nodes are registered.
func (s *state) NodeCount() int { return s.nodes.rows.len() }

// GPUTypes lists the types of GPU that nodes have ever reported.
func (s *state) GPUTypes() []string {
	var types []string
	for g := range s.nodes.models.rows() {
		if len(types) == 0 || types[len(types)-1] != g.Type {
			types = append(types, g.Type)
		}
	}
	return types
}

// knownGPU resolves a type or model to the spelling that nodes use.
func (s *state) knownGPU(want string) (string, bool) {
	for g := range s.nodes.models.rows() {
		if strings.EqualFold(want, g.Type) {
			return g.Type, true
		}
		if strings.EqualFold(want, g.Model) {
			return g.Model, true
		}
	}
	return "", false
}

func (RegisterNode) commandType() uint16 { return 5 }

func (c RegisterNode) apply(tx *tx) any {
	n := c.Node
	if r := validateNode(&n); r != nil {
		return NodeResult{Refusal: r}
	}
	n.ID = tx.work.name(n.ID)
	n.Drain, n.UnreachableSince, n.LostSince, n.Unheard, n.Reason = nil, 0, 0, false, ""
	n.RegisteredAt, n.EnabledAt, n.RosterSince = tx.now, 0, 0
	n.RosterAcked = min(c.Node.RosterAcked, tx.meta.RosterVersion)
	old, known := tx.Node(n.ID)
	if known {
		n.Drain, n.RegisteredAt = old.Drain, old.RegisteredAt
		n.EnabledAt, n.RosterSince = old.EnabledAt, old.RosterSince
		if tx.version >= 2 {
			n.Reason = drainReason(n.Drain)
		}
		if n.RosterAcked == 0 {
			// Without a roster on disk the agent lets nothing run on, whatever is thought of it here.
			n.RosterAcked = old.RosterAcked
		}
		n.GPUs = withVanished(n.GPUs, old.GPUs)
		if n.RosterSince != 0 && n.GRPCAddr != old.GRPCAddr {
			// The roster says where to ask.
			tx.changeRoster()
		}
	}
	tx.enrol(&n)
	tx.learnModels(n.GPUs)
	tx.saveNode(old, &n)
	if known && old.BootID != n.BootID {
		tx.endTasksOn(n.ID, "node "+n.ID+" was restarted", LossReboot)
	}
	if known && old.Unheard {
		tx.heard(n.ID, func(t TaskRef) bool { return slices.Contains(c.Tasks, t) })
	}
	tx.settleAwaits(n.ID, func(t TaskRef) bool {
		return known && old.BootID == n.BootID && slices.Contains(c.Tasks, t)
	})
	now, _ := tx.Node(n.ID)
	return NodeResult{Node: now}
}

func validateNode(n *Node) *Refusal {
	if n.ID == "" {
		return refuse(CodeInvalidArgument, "a node needs an id")
	}
	return validateGPUs(n.GPUs)
}

func validateGPUs(gpus []GPU) *Refusal {
	var seen uint64
	for i := range gpus {
		at := gpus[i].Index
		if at >= MaxGPUs {
			return refuse(CodeInvalidArgument, "GPU index %d is too large: a node can have %d", at, MaxGPUs)
		}
		if seen&(1<<at) != 0 {
			return refuse(CodeInvalidArgument, "GPU index %d is there twice", at)
		}
		seen |= 1 << at
	}
	return nil
}

// withVanished adds to an inventory the GPUs that were there before and are not any more, unless another one has
// taken their index.
func withVanished(now, before []GPU) []GPU {
	var indices uint64
	for i := range now {
		indices |= 1 << now[i].Index
	}
	for _, g := range before {
		if indices&(1<<g.Index) != 0 || slices.ContainsFunc(now, func(o GPU) bool { return g.UUID != "" && o.UUID == g.UUID }) {
			continue
		}
		if g.Health != v1.GpuHealth_VANISHED {
			g.Health, g.HealthReason = v1.GpuHealth_VANISHED, "it was there before and is not found any more"
		}
		now = append(now, g)
	}
	slices.SortFunc(now, func(a, b GPU) int { return int(a.Index) - int(b.Index) })
	return now
}

func (tx *tx) learnModels(gpus []GPU) {
	for i := range gpus {
		g := gpuModel{Model: gpus[i].Model, Type: gpus[i].Type}
		if g.Model == "" && g.Type == "" {
			continue
		}
		if _, ok := tx.nodes.models.get(g); !ok {
			tx.nodes.models.put(g, &g)
		}
	}
}

// saveNode puts a changed node in, after its state was derived anew, and says so. n is a copy that nobody else holds.
func (tx *tx) saveNode(old, n *Node) {
	switch {
	case n.LostSince != 0:
		n.State = v1.NodeState_LOST
	case n.UnreachableSince != 0:
		n.State = v1.NodeState_UNREACHABLE
	case n.Drain != nil && tx.work.useOf(n.ID).Tasks == 0:
		n.State = v1.NodeState_DRAINED
	case n.Drain != nil:
		n.State = v1.NodeState_DRAINING
	default:
		n.State = v1.NodeState_READY
	}
	n.UpdatedAt, n.Revision = tx.now, tx.index
	e := Event{Topic: TopicNode, Nodes: []string{n.ID}, NodeTo: n.State}
	if old != nil {
		e.NodeFrom = old.State
	}
	tx.putNode(old, n)
	tx.emit(e)
}

// emptied is called when a lease on a node ended: a drain may be complete.
func (tx *tx) emptied(id string) {
	n, ok := tx.Node(id)
	if !ok || n.State != v1.NodeState_DRAINING || tx.work.useOf(id).Tasks != 0 {
		return
	}
	done := *n
	tx.saveNode(n, &done)
}
