package tables

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/inuse"
)

// NodesLost is how many nodes were declared lost, ever.
func (v *View) NodesLost() uint64 { return v.meta.NodesLost }

type nodeTables struct {
	rows kernel.Table[string, *work.Node]
	// timers are the deadlines of drains; away are the nodes that cannot be reached.
	timers kernel.Index[nodeTimer]
	away   kernel.Index[string]
	// total is the size of all nodes together.
	total accounts.Amount
	// unheard are those that have not registered since the cluster was recovered.
	unheard kernel.Index[string]
}

func newNodeTables() nodeTables {
	return nodeTables{
		rows:   kernel.NewTable[string, *work.Node](recordNode, func(a, b string) bool { return a < b }),
		timers: kernel.NewIndex(func(a, b nodeTimer) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
		away:   kernel.NewIndex(func(a, b string) bool { return a < b }),

		unheard: kernel.NewIndex(func(a, b string) bool { return a < b }),
	}
}

func (t *nodeTables) freeze() nodeTables {
	return nodeTables{
		rows: t.rows.Freeze(), timers: t.timers.Freeze(), away: t.away.Freeze(), unheard: t.unheard.Freeze(),
		total: t.total,
	}
}

type nodeTimer struct {
	at int64
	id string
}

func (s *State) PutNode(old, n *work.Node) {
	if old == nil {
		old = &noNode
	}
	s.retype(old, n)
	s.nodes.rows.Put(n.ID, n)
	inuse.Touch(&s.leases.use, n.ID)
	s.nodes.total.Sub(old.Amount())
	s.nodes.total.Add(n.Amount())
	if was, is := old.Timer(), n.Timer(); was != is {
		if was != 0 {
			s.nodes.timers.Delete(nodeTimer{was, n.ID})
		}
		if is != 0 {
			s.nodes.timers.Put(nodeTimer{is, n.ID})
		}
	}
	if was, is := old.UnreachableSince != 0, n.UnreachableSince != 0; was != is {
		if is {
			s.nodes.away.Put(n.ID)
		} else {
			s.nodes.away.Delete(n.ID)
		}
	}
	if old.Unheard != n.Unheard {
		if n.Unheard {
			s.nodes.unheard.Put(n.ID)
		} else {
			s.nodes.unheard.Delete(n.ID)
		}
	}
}

var noNode work.Node

// DropNode takes a node out of the state.
func (s *State) DropNode(n *work.Node) {
	s.retype(n, &noNode)
	s.nodes.rows.Delete(n.ID)
	inuse.Touch(&s.leases.use, n.ID)
	s.nodes.total.Sub(n.Amount())
	if at := n.Timer(); at != 0 {
		s.nodes.timers.Delete(nodeTimer{at, n.ID})
	}
	s.nodes.away.Delete(n.ID)
	s.nodes.unheard.Delete(n.ID)
}

// DueDrain returns a node whose drain has reached its deadline; nil: there is none.
func (s *State) DueDrain(now int64) *work.Node {
	t, ok := s.nodes.timers.Min()
	if !ok || t.at > now {
		return nil
	}
	n, _ := s.Node(t.id)
	return n
}

// Total is the size of all registered nodes together, whether they can be used now or not.
func (s *rows) Total() accounts.Amount { return s.nodes.total }

// AwayNodes lists the nodes that cannot be reached.
func (s *rows) AwayNodes() []string {
	var ids []string
	for id := range s.nodes.away.All() {
		ids = append(ids, id)
	}
	return ids
}

// AllHeard says whether every node has registered since the cluster was recovered.
func (s *rows) AllHeard() bool { return s.nodes.unheard.Len() == 0 }

// Node returns a node by its id.
func (s *rows) Node(id string) (*work.Node, bool) { return s.nodes.rows.Get(id) }

// Nodes iterates the nodes by id.
func (s *rows) Nodes() iter.Seq[*work.Node] { return s.nodes.rows.Rows() }

// NodeCount is how many nodes are registered.
func (s *rows) NodeCount() int { return s.nodes.rows.Len() }

// Unheard lists the nodes that have not registered since the cluster was recovered, by id.
func (v *View) Unheard() []string {
	var ids []string
	for id := range v.nodes.unheard.All() {
		ids = append(ids, id)
	}
	return ids
}
