package apply

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
)

// reading is a command that changes an array and then looks at jobs.
type reading struct{}

func (reading) CommandNumber() uint16 { return 1000 }

// TestReads_writeNothing holds that a look at a job finds what the command has done, and leaves putting it in to flush.
func TestReads_writeNothing(t *testing.T) {
	reads := map[string]func(tx *tx, array, dependent *work.Job){
		"Job":          func(tx *tx, array, _ *work.Job) { tx.Job(array.ID) },
		"Find":         func(tx *tx, array, _ *work.Job) { tx.Find(array.ID.At(1)) },
		"array":        func(tx *tx, array, _ *work.Job) { tx.array(array.ID) },
		"materialize":  func(tx *tx, array, _ *work.Job) { tx.materialize(array.ID.At(2)) },
		"overParallel": func(tx *tx, array, _ *work.Job) { tx.overParallel(array.Element(2)) },
		"mayGoOn":      func(tx *tx, array, _ *work.Job) { tx.mayGoOn(array.ID) },
		"holds":        func(tx *tx, _, dependent *work.Job) { tx.holds(dependent) },
		"hopeless":     func(tx *tx, _, dependent *work.Job) { tx.hopeless(dependent) },
	}
	domain := Domain()
	domain.Commands = append(domain.Commands, kernel.Define("reading", on(func(tx *tx, _ *reading) any {
		n := work.NewJob{Tenant: "acme", Shape: work.Shape{Nodes: 1, CPUs: 1}, Array: &work.NewArray{Start: 0, End: 3}, MaxParallel: 1}
		made := tx.submit(&n)
		require.Nil(t, made.Refusal)
		n.Array, n.MaxParallel = nil, 0
		n.Dependencies = []work.Dependency{{Job: made.Job, When: work.AfterAny}}
		after := tx.submit(&n)
		require.Nil(t, after.Refusal)

		put, _ := tx.State.Job(made.Job)
		row := tx.editArray(made.Job)
		row.Array.Waiting, row.Array.Canceled = nil, row.Array.Waiting
		events := tx.entry.NextEvent()
		for name, read := range reads {
			dependent, _ := tx.Job(after.Job)
			read(tx, row, dependent)
			still, _ := tx.State.Job(made.Job)
			require.Same(t, put, still, "%s put the array in", name)
			require.Equal(t, []ident.Job{made.Job}, tx.arrays.order, name)
			seen, _ := tx.Job(made.Job)
			require.Same(t, row, seen, "%s: the command sees what it did", name)
			events++
			require.Equal(t, events, tx.entry.NextEvent(), "%s emitted an event", name)
		}

		tx.flush()
		require.Empty(t, tx.arrays.order)
		ended, _ := tx.State.Job(made.Job)
		require.True(t, ended.Terminal())
		released, _ := tx.State.Job(after.Job)
		require.Zero(t, released.Held, "what waited for the array was looked at")
		return nil
	})))
	m := kernel.New(kernel.Config[kernel.View, event.Event]{
		Registry: kernel.Register(domain, access.Audit()), View: func(v *kernel.View) *kernel.View { return v },
	})
	queue, err := kernel.Encode(level.Newest, work.PutQueue{Queue: work.Queue{Name: work.DefaultQueue}})
	require.NoError(t, err)
	read, err := kernel.Encode(level.Newest, reading{})
	require.NoError(t, err)
	m.Apply(1, kernel.Pack(level.Newest, time.Unix(0, 1), [][]byte{queue, read}))
}
