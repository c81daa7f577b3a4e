package inuse_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/changes"
	"github.com/mindcoordinator/mind/fsm/work/inuse"
)

// TestNodesChanged_hasAllThatDiffer compares random pairs of frozen books: nodes that are not listed as changed have the
// same figures in both, at the same address, and a frozen book does not change.
func TestNodesChanged_hasAllThatDiffer(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	book := inuse.New()
	type frozen struct {
		inuse.Figures
		copied map[string]work.NodeUse
	}
	var all []frozen
	for range 300 {
		for range random.IntN(4) {
			node := strconv.Itoa(random.IntN(20))
			if random.IntN(3) == 0 {
				inuse.Touch(&book, node)
				continue
			}
			inuse.Change(&book, node).Add(&work.Lease{Node: node, CPUs: 1})
		}
		inuse.Flush(&book)
		at := inuse.Freeze(&book)
		f := frozen{inuse.FiguresOf(&at), map[string]work.NodeUse{}}
		for node, use := range f.Uses() {
			require.Equal(t, *inuse.Now(&book, node), *use)
			f.copied[node] = *use
		}
		all = append(all, f)
	}
	for range 1000 {
		i := random.IntN(len(all))
		from, to := all[i], all[i+random.IntN(len(all)-i)]
		listed, known := changes.Between(from.NodesChanged(), to.NodesChanged())
		require.True(t, known)
		changed := slices.Collect(listed)
		for node, use := range to.Uses() {
			require.Equal(t, to.copied[node], *use)
			if !slices.Contains(changed, node) {
				require.Same(t, from.UseOf(node), use)
			}
		}
		require.Len(t, slices.Collect(maps.Keys(to.copied)), len(maps.Collect(to.Uses())))
	}
}
