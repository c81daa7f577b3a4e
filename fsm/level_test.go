package fsm_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
)

// The toy level is above all that gates of mind may open at, with a command that does more from there on.
var (
	toyLevel = level.Released + 2
	toyGate  = level.NewGate(toyLevel, "loud toys")
)

// ring is the toy's command. Loud is a field that replicas below the level do not know.
type ring struct {
	Loud bool `cbor:"1,keyasint,omitempty"`
}

func (ring) CommandNumber() uint16 { return 1002 }

// AtLevel implements kernel.Leveled.
func (r ring) AtLevel(at level.Level) (kernel.Command, error) {
	if r.Loud {
		return r, toyGate.Check(at)
	}
	return r, nil
}

// withToys is a world of a version of mind that supports the toy level too.
func withToys(t require.TestingT) *world {
	w := newWorld(t)
	toys := kernel.Domain{Name: "toys", Commands: []kernel.CommandDef{
		kernel.Define("ring", func(tx *kernel.Tx, c *ring) bool { return tx.Open(toyGate) }, nil),
	}}
	registry := kernel.Register(append(fsm.Domains(), toys)...).Supporting(level.Range{Oldest: level.Oldest, Newest: toyLevel})
	w.m = kernel.New(fsm.Composition(registry))
	w.at = level.Base
	w.voters("c1", "c2", "c3")
	return w
}

func (w *world) raise(to level.Level) coordinators.RaiseLevelResult {
	r := do[coordinators.RaiseLevelResult](w, coordinators.RaiseLevel{To: to, VotersIndex: w.m.View().VotersIndex(), Actor: &access.Actor{User: "root"}})
	w.at = w.m.View().Level()
	return r
}

func TestLevel_isRaisedAndNeverFalls(t *testing.T) {
	w := withToys(t)
	require.Equal(t, level.Base, w.m.View().Level())
	before := w.m.View().Hash()
	stale := do[coordinators.RaiseLevelResult](w, coordinators.RaiseLevel{To: toyLevel, VotersIndex: w.m.View().VotersIndex() - 1})
	require.Equal(t, reason.MembershipChanged, stale.Refusal.Reason.Code())
	require.Equal(t, level.Base, w.m.View().Level())
	require.Equal(t, reason.New(reason.LevelReached, int64(level.Base)), w.raise(level.Base).Refusal.Reason)

	require.Nil(t, w.raise(toyLevel).Refusal)
	require.Equal(t, toyLevel, w.m.View().Level())
	require.NotEqual(t, before, w.m.View().Hash())
	require.Equal(t, reason.New(reason.LevelReached, int64(toyLevel)), w.raise(level.Base).Refusal.Reason)
	w.at = level.Base
	w.do(clusterverbs.Tick{})
	require.Equal(t, toyLevel, w.m.View().Level(), "an entry of an older view lowers nothing")

	raw := snapshotBytes(t, w.m)
	again := withToys(t)
	require.NoError(t, again.m.Restore(bytes.NewReader(raw)))
	require.Equal(t, toyLevel, again.m.View().Level())
	sameState(t, w.m, again.m)
	require.ErrorContains(t, fsm.New().Restore(bytes.NewReader(raw)), "snapshot version")
}

// TestLevel_anEntryAboveItRaisesIt holds that a replica which applies an entry of a level writes no less than that itself.
func TestLevel_anEntryAboveItRaisesIt(t *testing.T) {
	w := withToys(t)
	w.at = toyLevel
	w.do(clusterverbs.Tick{})
	require.Equal(t, toyLevel, w.m.View().Level())
}

func TestLevel_aReplicaThatDoesNotSupportItStops(t *testing.T) {
	w := newWorld(t)
	w.voters("c1", "c2", "c3")
	entry := w.entry(coordinators.RaiseLevel{To: toyLevel, VotersIndex: w.m.View().VotersIndex()})
	require.ErrorContains(t, fsm.CheckEntry(entry), "the cluster was raised to feature level")
	require.Panics(t, func() { w.m.Apply(w.index+1, entry) })
	w.at = toyLevel
	entry = w.entry(clusterverbs.Tick{})
	require.ErrorContains(t, fsm.CheckEntry(entry), "entry version")
}

// TestLevel_decidesWhatACommandDoes holds that an entry means the same for ever: a command in it does what its level has.
func TestLevel_decidesWhatACommandDoes(t *testing.T) {
	w := withToys(t)
	require.Equal(t, false, w.do(ring{})[0])
	w.raise(toyLevel)
	require.Equal(t, true, w.do(ring{})[0])
	w.at = level.Base
	require.Equal(t, false, w.do(ring{})[0], "an entry of an older view")
}

func TestLevel_whatItLacksIsRefusedWithASentence(t *testing.T) {
	_, err := kernel.Encode(level.Base, ring{Loud: true})
	var locked *level.Locked
	require.ErrorAs(t, err, &locked)
	require.ErrorContains(t, err, "loud toys needs feature level")
	require.ErrorContains(t, err, "upgrade all coordinators, then see `mind raft level`")
	_, err = kernel.Encode(toyLevel, ring{Loud: true})
	require.NoError(t, err)
}

func TestLevel_eachUnlocksSomething(t *testing.T) {
	for at := level.Base + 1; at <= level.Newest; at++ {
		require.NotEmpty(t, level.Unlocks(at), "level %d", at)
	}
	for at := level.Released + 2; at < 100; at++ {
		if at == toyLevel {
			require.Equal(t, []string{"loud toys"}, level.Unlocks(at), "a gate above the newest level never opens")
		} else {
			require.Empty(t, level.Unlocks(at), "a gate above the newest level never opens")
		}
	}
}
