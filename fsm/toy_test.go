package fsm_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
)

// The toy is a domain as anybody could add one: notes that are pinned for a while. It uses nothing that the packages of the
// state do not export, and docs/develop/extending.md walks through what it has.

// note is a row.
type note struct {
	Name  string `cbor:"1,keyasint,omitempty"`
	Text  string `cbor:"2,keyasint,omitempty"`
	Until int64  `cbor:"3,keyasint,omitempty"`
}

func (n *note) AppendFields(f kernel.Fields) kernel.Fields {
	return f.Text(n.Name).Text(n.Text).Int(n.Until)
}

// pinNote is a command, and pinResult what it answers.
type pinNote struct {
	Note  note          `cbor:"1,keyasint,omitempty"`
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

type pinResult struct{ Refusal *kernel.Refusal }

func (pinNote) CommandNumber() uint16 { return 1001 }

type dueNote struct {
	at   int64
	name string
}

// notes are the tables: the rows, and one index that is derived from them.
type notes struct {
	rows kernel.Table[string, *note]
	due  kernel.Index[dueNote]
}

func (n *notes) Freeze(*kernel.State) kernel.Part {
	return &notes{rows: n.rows.Freeze(), due: n.due.Freeze()}
}

func (n *notes) put(row *note) {
	n.rows.Put(row.Name, row)
	n.due.Put(dueNote{row.Until, row.Name})
}

func notesOf(s *kernel.State) *notes { return kernel.PartOf[*notes](s) }

const (
	recordNote = 1001
	// topicNote is the topic of the toy's events.
	topicNote event.Topic = "note"
)

var auditNotePin = access.DefineAction(250, "note.pin", access.AboutOperation)

func toyDomain() kernel.Domain {
	return kernel.Domain{
		Name: "notes",
		Open: func(*kernel.State) kernel.Part {
			return &notes{
				rows: kernel.NewTable[string, *note](recordNote, func(a, b string) bool { return a < b }),
				due:  kernel.NewIndex(func(a, b dueNote) bool { return a.at < b.at || a.at == b.at && a.name < b.name }),
			}
		},
		Records: []kernel.RecordDef{
			kernel.Rows(recordNote, "note", func(s *kernel.State) *kernel.Table[string, *note] { return &notesOf(s).rows },
				func(s *kernel.State, n *note) error { notesOf(s).put(n); return nil }),
		},
		Commands: []kernel.CommandDef{kernel.Define("pinNote", applyPin, auditPin)},
		Due: func(s *kernel.State) (int64, bool) {
			first, ok := notesOf(s).due.Min()
			return first.at, ok
		},
		Tick:  dropDue,
		Check: checkNotes,
	}
}

func applyPin(tx *kernel.Tx, c *pinNote) pinResult {
	if c.Note.Name == "" {
		return pinResult{&kernel.Refusal{Code: kernel.CodeInvalidArgument, Reason: reason.Text("a note needs a name")}}
	}
	row := c.Note
	row.Until += tx.Now()
	notesOf(tx.State).put(&row)
	event.Emit(tx, event.Event{Topic: topicNote, Name: row.Name})
	return pinResult{}
}

func auditPin(tx *kernel.Tx, c *pinNote, result pinResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditNotePin, Object: c.Note.Name}, result.Refusal)
}

func dropDue(tx *kernel.Tx) (more bool) {
	t := notesOf(tx.State)
	for {
		first, ok := t.due.Min()
		if !ok || first.at > tx.Now() {
			return false
		}
		t.rows.Delete(first.name)
		t.due.Delete(first)
		event.Emit(tx, event.Event{Topic: topicNote, Name: first.name})
	}
}

func checkNotes(s *kernel.State, report kernel.Report) {
	t := notesOf(s)
	for n := range t.rows.Rows() {
		if !t.due.Has(dueNote{n.Until, n.Name}) {
			report("%s has no timer", n.Name)
		}
	}
}

// toyWorld is a world whose machine has the toy, too.
func toyWorld(t require.TestingT) *world {
	w := newWorld(t)
	w.m = kernel.New(fsm.Composition(toyRegistry(w)))
	return w
}

func toyRegistry(w *world) *kernel.Registry {
	see := kernel.Domain{Name: "inside", Open: func(s *kernel.State) kernel.Part {
		w.working.state = s
		return w.working
	}}
	return kernel.Register(append(fsm.Domains(), toyDomain(), see)...)
}

func notesIn(v *fsm.View) map[string]string {
	found := map[string]string{}
	for n := range notesOf(v.State()).rows.Rows() {
		found[n.Name] = n.Text
	}
	return found
}

// TestToy_goesThroughAllThatADomainHas registers a domain from outside, and takes it through commands, refusals, events, the audit
// log, the hash, snapshots and time.
func TestToy_goesThroughAllThatADomainHas(t *testing.T) {
	w := toyWorld(t)
	var events []event.Event
	w.m.OnApply(func(_ *fsm.View, e []event.Event) { events = append(events, e...) })
	before := w.m.View()

	res := w.do(
		pinNote{Note: note{Name: "a", Text: "first", Until: int64(time.Minute)}, Actor: &access.Actor{Tenant: "ops", User: "root"}},
		pinNote{Note: note{Text: "nameless"}, Actor: &access.Actor{Tenant: "ops", User: "root"}},
		pinNote{Note: note{Name: "b", Until: int64(time.Hour)}},
	)
	require.Nil(t, res[0].(pinResult).Refusal)
	require.Equal(t, kernel.CodeInvalidArgument, res[1].(pinResult).Refusal.Code)
	require.Equal(t, map[string]string{"a": "first", "b": ""}, notesIn(w.m.View()))
	require.Empty(t, notesIn(before), "a view never changes")
	require.NotEqual(t, before.Hash(), w.m.View().Hash())
	require.Equal(t, []string{"ops/root note.pin a 0", "ops/root note.pin  3: a note needs a name"}, told(w.m.View()))
	require.Len(t, events, 2)
	require.Equal(t, event.Event{Index: 1, Pos: 1, Topic: topicNote, Name: "b"}, events[1])

	restored := kernel.New(fsm.Composition(toyRegistry(&world{working: &inside{}})))
	require.NoError(t, restored.Restore(bytes.NewReader(snapshotBytes(t, w.m))))
	sameState(t, w.m, restored)
	require.Equal(t, notesIn(w.m.View()), notesIn(restored.View()))
	require.ErrorContains(t, fsm.New().Restore(bytes.NewReader(snapshotBytes(t, w.m))), "unknown record type 1001")

	due, ok := w.m.View().NextDue()
	require.True(t, ok)
	require.Equal(t, startOfTime+int64(time.Minute), due)
	w.later(time.Minute)
	w.do(clusterverbs.Tick{})
	require.Equal(t, map[string]string{"b": ""}, notesIn(w.m.View()))
	last := w.log[len(w.log)-1]
	restored.Apply(last.Index, last.Data)
	sameState(t, w.m, restored)
}

// TestToy_checkCanFail holds that what a domain checks is asked, and that a row which was changed behind the table is seen.
func TestToy_checkCanFail(t *testing.T) {
	w := toyWorld(t)
	w.do(pinNote{Note: note{Name: "a", Until: 1}})
	tables := notesOf(w.working.state)
	first, _ := tables.due.Min()
	tables.due.Delete(first)
	require.Equal(t, []string{"notes: a has no timer"}, fsm.Check(w.publish()))
	tables.due.Put(first)
	require.Empty(t, fsm.Check(w.publish()))
	row, _ := tables.rows.Get("a")
	row.Text = "changed in place"
	require.Contains(t, fsm.Check(w.publish())[0], "I8")
}

// TestRegister_refusesANumberThatIsTaken holds that two domains cannot claim the same command or record.
func TestRegister_refusesANumberThatIsTaken(t *testing.T) {
	require.PanicsWithValue(t, "fsm: command number 1001 is both pinNote and pinNote", func() {
		kernel.Register(toyDomain(), toyDomain())
	})
	rows := toyDomain()
	rows.Commands = nil
	require.PanicsWithValue(t, "fsm: record number 1001 is both note and note", func() { kernel.Register(toyDomain(), rows) })
}
