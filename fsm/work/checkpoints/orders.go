package checkpoints

import (
	"iter"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

const (
	// MaxOrders bounds what a node is told to do at a time; maxUploads leaves room for removals.
	MaxOrders  = 64
	maxUploads = 40
)

// Nodes tells about nodes.
type Nodes interface {
	// HasArchive says whether the agent of a node has an archive.
	HasArchive(node string) bool
	// Away says whether a node cannot be reached, or is not known; Gone, whether it was declared lost or is not known.
	Away(node string) bool
	Gone(node string) bool
	// Archivists lists the nodes that can be reached and have an archive, by id.
	Archivists() []string
}

// Order is something that a node has to do with a checkpoint.
type Order struct {
	ID     ident.Checkpoint
	Action v1.CheckpointAction_Value
	Key    string
	// Checkpoint is nil of a leftover.
	Checkpoint *Checkpoint
}

// OrdersOf lists what a node has to do, the most urgent first: what is being uploaded, what is to be uploaded, newest first,
// and then what is to be removed.
func (t *Tables) OrdersOf(node string, nodes Nodes) []Order {
	var orders []Order
	archives := nodes.HasArchive(node)
	if archives {
		for at := range listed(&t.uploads, node) {
			if len(orders) == maxUploads {
				break
			}
			if c, _ := t.rows.Get(at.id()); !t.savedElsewhere(c, nodes) {
				orders = append(orders, Order{c.ID, v1.CheckpointAction_UPLOAD, c.ArchiveKey(), c})
			}
		}
	}
	add := func(o Order) { orders = append(orders, o) }
	for at := range listed(&t.removals, node) {
		if len(orders) >= MaxOrders {
			return orders[:MaxOrders]
		}
		if c, ok := t.rows.Get(at.id()); ok && at.kind == todoExpired && c.Left&LeftFiles != 0 && !t.wantedBelow(c.Path) {
			add(Order{c.ID, v1.CheckpointAction_REMOVE_FILES, c.ArchiveKey(), c})
		}
		if archives {
			t.removeArchived(at, add)
		}
	}
	if archives && !nodes.Away(node) {
		t.forOthers(node, nodes, &orders)
	}
	return orders[:min(len(orders), MaxOrders)]
}

// listed iterates what is listed for a node.
func listed(list *kernel.Index[todo], node string) iter.Seq[todo] {
	return func(yield func(todo) bool) {
		list.AscendFrom(todo{node: node}, func(at todo) bool { return at.node == node && yield(at) })
	}
}

// removeArchived adds the order to remove from the archive what is left there of a row.
func (t *Tables) removeArchived(at todo, add func(Order)) {
	if at.kind == todoLeftover {
		l, _ := t.leftovers.Get(at.id())
		add(Order{ID: l.ID, Action: v1.CheckpointAction_REMOVE_ARCHIVED, Key: l.Key})
	} else if c, _ := t.rows.Get(at.id()); c.Left&LeftArchived != 0 {
		add(Order{c.ID, v1.CheckpointAction_REMOVE_ARCHIVED, c.ArchiveKey(), c})
	}
}

// forOthers adds what a node has to remove from the archive for nodes that do not do it.
func (t *Tables) forOthers(node string, nodes Nodes, orders *[]Order) {
	var able []string
	for other := range t.removers() {
		if other == node || !removesForIt(other, nodes) {
			continue
		}
		if able == nil {
			able = nodes.Archivists()
		}
		for at := range listed(&t.removals, other) {
			if len(*orders) >= MaxOrders || len(able) == 0 {
				return
			}
			if able[uint64(at.id())>>16%uint64(len(able))] == node {
				t.removeArchived(at, func(o Order) { *orders = append(*orders, o) })
			}
		}
	}
}

// removesForIt says whether other nodes remove from the archive what a node has put there.
func removesForIt(node string, nodes Nodes) bool { return nodes.Gone(node) || !nodes.HasArchive(node) }

// MayRemove says whether it is for a node to remove from the archive what another one has put there.
func MayRemove(node, from string, nodes Nodes) bool {
	return node == from || removesForIt(from, nodes) && nodes.HasArchive(node)
}

// removers iterates the nodes that have something left to be removed, by id.
func (t *Tables) removers() iter.Seq[string] {
	return func(yield func(string) bool) {
		next := todo{}
		for {
			found := false
			t.removals.AscendFrom(next, func(at todo) bool {
				next, found = todo{node: at.node + "\x00"}, yield(at.node)
				return false
			})
			if !found {
				return
			}
		}
	}
}

// LeftByOthers says whether there is anything to remove from the archive that the node which put it there does not remove.
func (t *Tables) LeftByOthers(nodes Nodes) bool {
	for node := range t.removers() {
		if removesForIt(node, nodes) {
			return true
		}
	}
	return false
}

// savedElsewhere says whether another node that shares the directory has uploaded it, or is the one to do so.
func (t *Tables) savedElsewhere(c *Checkpoint, nodes Nodes) bool {
	for o := range t.AtPath(c.Path) {
		switch {
		case !o.SameFiles(c):
		case o.Durable():
			return true
		case nodes.HasArchive(o.Node) && !nodes.Away(o.Node) && uploadsBefore(o, c):
			return true
		}
	}
	return false
}

func uploadsBefore(a, b *Checkpoint) bool {
	if a.State != b.State {
		return a.State == v1.CheckpointState_UPLOADING
	}
	return a.ID < b.ID
}
