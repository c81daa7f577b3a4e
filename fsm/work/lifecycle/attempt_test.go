package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/tables"
)

// domain is that of work with some commands.
func domain(verbs ...kernel.CommandDef) kernel.Domain {
	return kernel.Domain{
		Name: "work", Open: tables.Open, Records: tables.Records(), Commands: verbs,
		Meta: &kernel.MetaDef{New: func() kernel.MetaRow { return &work.Meta{} }},
	}
}

// moving is a command that moves a job which is in no table.
type moving struct {
	From, To v1.JobState_Value
}

func (moving) CommandNumber() uint16 { return 1000 }

// TestMove_everyIllegalPairStops holds that no job moves against the table.
func TestMove_everyIllegalPairStops(t *testing.T) {
	verb := lifecycle.Verb("moving", func(tx *lifecycle.Tx, c *moving) any {
		tx.Move(&work.Job{ID: 1, State: c.From}, c.To, "")
		return nil
	}, nil)
	registry := kernel.Register(domain(verb), access.Audit())
	for from := range v1.JobState_Value_name {
		for to := range v1.JobState_Value_name {
			from, to := v1.JobState_Value(from), v1.JobState_Value(to)
			m := kernel.New(kernel.Config[kernel.View, event.Event]{
				Registry: registry, View: func(v *kernel.View) *kernel.View { return v },
			})
			c, err := kernel.Encode(level.Newest, moving{from, to})
			require.NoError(t, err)
			move := func() { m.Apply(1, kernel.Pack(level.Newest, time.Unix(0, 1), [][]byte{c})) }
			if work.CanMove(from, to) {
				require.NotPanics(t, move, "%s to %s", from, to)
			} else {
				require.Panics(t, move, "%s to %s", from, to)
			}
		}
	}
}
