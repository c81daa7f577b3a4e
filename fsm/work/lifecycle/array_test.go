package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// reading is a command that changes an array and then looks at jobs.
type reading struct{}

func (reading) CommandNumber() uint16 { return 1000 }

// TestReads_writeNothing holds that a look at a job finds what the command has done, and leaves putting it in to flush.
func TestReads_writeNothing(t *testing.T) {
	reads := map[string]func(tx *lifecycle.Tx, array, dependent *work.Job){
		"Job":          func(tx *lifecycle.Tx, array, _ *work.Job) { tx.Job(array.ID) },
		"Find":         func(tx *lifecycle.Tx, array, _ *work.Job) { tx.Find(array.ID.At(1)) },
		"ArrayRow":     func(tx *lifecycle.Tx, array, _ *work.Job) { tx.ArrayRow(array.ID) },
		"Materialize":  func(tx *lifecycle.Tx, array, _ *work.Job) { tx.Materialize(array.ID.At(2)) },
		"OverParallel": func(tx *lifecycle.Tx, array, _ *work.Job) { tx.OverParallel(array.Element(2)) },
		"MayGoOn":      func(tx *lifecycle.Tx, array, _ *work.Job) { tx.MayGoOn(array.ID) },
		"Holds":        func(tx *lifecycle.Tx, _, dependent *work.Job) { tx.Holds(dependent) },
		"Hopeless":     func(tx *lifecycle.Tx, _, dependent *work.Job) { tx.Hopeless(dependent) },
	}
	verbs := append(queueverbs.Verbs(), lifecycle.Verb("reading", func(tx *lifecycle.Tx, _ *reading) any {
		n := jobverbs.NewJob{Tenant: "acme", Shape: work.Shape{Nodes: 1, CPUs: 1}, Array: &jobverbs.NewArray{Start: 0, End: 3}, MaxParallel: 1}
		made := jobverbs.Submit(tx, &n)
		require.Nil(t, made.Refusal)
		n.Array, n.MaxParallel = nil, 0
		n.Dependencies = []work.Dependency{{Job: made.Job, When: work.AfterAny}}
		after := jobverbs.Submit(tx, &n)
		require.Nil(t, after.Refusal)

		put, _ := tx.State.Job(made.Job)
		row := tx.EditArray(made.Job)
		row.Array.Waiting, row.Array.Canceled = nil, row.Array.Waiting
		events := tx.Entry.NextEvent()
		for name, read := range reads {
			dependent, _ := tx.Job(after.Job)
			read(tx, row, dependent)
			still, _ := tx.State.Job(made.Job)
			require.Same(t, put, still, "%s put the array in", name)
			require.Equal(t, []ident.Job{made.Job}, tx.Pending(), name)
			seen, _ := tx.Job(made.Job)
			require.Same(t, row, seen, "%s: the command sees what it did", name)
			events++
			require.Equal(t, events, tx.Entry.NextEvent(), "%s emitted an event", name)
		}

		tx.Flush()
		require.Empty(t, tx.Pending())
		ended, _ := tx.State.Job(made.Job)
		require.True(t, ended.Terminal())
		released, _ := tx.State.Job(after.Job)
		require.Zero(t, released.Held, "what waited for the array was looked at")
		return nil
	}, nil))
	m := kernel.New(kernel.Config[kernel.View, event.Event]{
		Registry: kernel.Register(domain(verbs...), access.Audit()), View: func(v *kernel.View) *kernel.View { return v },
	})
	queue, err := kernel.Encode(level.Newest, queueverbs.PutQueue{Queue: work.Queue{Name: work.DefaultQueue}})
	require.NoError(t, err)
	read, err := kernel.Encode(level.Newest, reading{})
	require.NoError(t, err)
	m.Apply(1, kernel.Pack(level.Newest, time.Unix(0, 1), [][]byte{queue, read}))
}
