package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/coreverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// core makes a Core that runs.
func (w *world) core(slug string) ident.Core {
	r := do[coreverbs.Result](w, coreverbs.PutCore{Tenant: "acme", User: "ada", Slug: slug, Name: slug, Source: []byte("program"), Digest: "d1"})
	require.Nil(w.t, r.Refusal)
	for _, a := range []cores.Action{cores.Start, cores.Ready} {
		require.Nil(w.t, do[coreverbs.Result](w, coreverbs.ControlCore{ID: r.Core.ID, Action: a}).Refusal)
	}
	return r.Core.ID
}

func TestCores_moveAsTheirLifecycleSays(t *testing.T) {
	w := newWorld(t)
	id := w.core("triage")
	say := func(a cores.Action) *kernel.Refusal {
		return do[coreverbs.Result](w, coreverbs.ControlCore{ID: id, Tenant: "acme", Action: a}).Refusal
	}
	require.Equal(t, reason.New(reason.CoreCannot, "triage", "started", "running"), say(cores.Start).Reason)
	require.Equal(t, reason.CoreCannot, do[coreverbs.Result](w, coreverbs.DeleteCore{ID: id, Tenant: "acme"}).Refusal.Reason.Code())
	require.Nil(t, say(cores.Pause))
	require.Nil(t, say(cores.Resume))
	require.Nil(t, say(cores.Stop))
	require.Nil(t, say(cores.Halted))
	require.Equal(t, kernel.CodeNotFound, do[coreverbs.Result](w, coreverbs.DeleteCore{ID: id, Tenant: "umbrella"}).Refusal.Code)
	require.Nil(t, do[coreverbs.Result](w, coreverbs.DeleteCore{ID: id, Tenant: "acme"}).Refusal)
	_, there := w.m.View().Core(id)
	require.False(t, there)
}

// TestCores_transitions tries every action in every state.
// A request that is repeated with its key gets the Core that the first one made; another request, or another key, is refused.
func TestCores_areMadeOnceForTheirKey(t *testing.T) {
	w := newWorld(t)
	put := func(key string, print uint64) coreverbs.Result {
		return do[coreverbs.Result](w, coreverbs.PutCore{Tenant: "acme", User: "ada", Slug: "triage", Name: "triage", Key: key, Fingerprint: print})
	}
	first := put("k", 7)
	require.Nil(t, first.Refusal)
	again := put("k", 7)
	require.Equal(t, []any{true, first.Core.ID}, []any{again.Duplicate, again.Core.ID})
	require.Equal(t, reason.CoreExists, put("k", 8).Refusal.Reason.Code())
	require.Equal(t, reason.CoreExists, put("l", 7).Refusal.Reason.Code())
	require.Equal(t, reason.CoreExists, put("", 7).Refusal.Reason.Code())
}

func TestCores_transitions(t *testing.T) {
	legal := 0
	for s := cores.Created; s <= cores.Restarting; s++ {
		for a := cores.Start; a <= cores.Crash; a++ {
			to, ok := s.After(a)
			require.Equal(t, ok, to.Valid())
			if ok {
				legal++
			}
		}
	}
	require.Equal(t, 23, legal)
}

func TestCores_versionsStayWhileTheyAreUsed(t *testing.T) {
	w := newWorld(t)
	id := w.core("triage")
	running := w.start(id)
	put := coreverbs.PutCore{ID: id, Tenant: "acme", Slug: "triage", Source: []byte("x"), Digest: "d1"}
	require.Equal(t, uint32(1), do[coreverbs.Result](w, put).Core.Version, "the same program is the same version")
	for i := range cores.MaxVersions + 4 {
		put.Digest = time.Duration(i).String()
		do[coreverbs.Result](w, put)
	}
	_, kept := w.m.View().CoreVersion(id, 1)
	require.True(t, kept, "an execution runs it")
	_, gone := w.m.View().CoreVersion(id, 2)
	require.False(t, gone)
	require.Equal(t, uint32(1), w.execution(running).Version)
	require.Equal(t, reason.CoreExists, do[coreverbs.Result](w, coreverbs.PutCore{Tenant: "acme", Slug: "triage"}).Refusal.Reason.Code())
}
