package replay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/raftnode/hostlog"
	"github.com/mindcoordinator/mind/raftnode/machine"
)

// list is a state machine that keeps its entries. An entry is a byte with its time in seconds, and text.
type list struct {
	Seconds int64
	Text    string
}

func (l *list) Apply(_ uint64, entry []byte) []any {
	if entry[1] == '!' {
		panic("it cannot be applied")
	}
	l.Seconds = max(l.Seconds, int64(entry[0]))
	l.Text += string(entry[1:])
	return nil
}

func (l *list) Snapshot() (machine.Snapshot, error)     { return &saved{*l}, nil }
func (l *list) Restore(r io.Reader) error               { return json.NewDecoder(r).Decode(l) }
func (l *list) StoreConfiguration(_ uint64, _ []string) { l.Text += "c" }
func (l *list) Now() time.Time                          { return time.Unix(l.Seconds, 0) }
func (l *list) TimeOf(entry []byte) time.Time           { return time.Unix(int64(entry[0]), 0) }

type saved struct{ list }

func (s *saved) WriteTo(w io.Writer) (int64, error) {
	raw, err := json.Marshal(s.list)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(raw)
	return int64(n), err
}
func (s *saved) Release() {}

// history is a log with snapshots.
type history struct {
	t    *testing.T
	m    *machine.Machine
	from Source
}

func newHistory(t *testing.T) *history {
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(t.TempDir(), 2, hostlog.New(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	return &history{t: t, m: machine.New(&list{}), from: Source{Log: raft.NewInmemStore(), Snapshots: snapshots}}
}

// write appends an entry and applies it.
func (h *history) write(of raft.LogType, data string) {
	h.from.Applied++
	entry := &raft.Log{Index: h.from.Applied, Term: 1, Type: of, Data: []byte(data)}
	require.NoError(h.t, h.from.Log.StoreLog(entry))
	if of == raft.LogCommand || of == raft.LogConfiguration {
		h.m.ApplyBatch([]*raft.Log{entry})
	}
}

// command appends a command with a time.
func (h *history) command(seconds byte, text string) {
	h.write(raft.LogCommand, string([]byte{seconds})+text)
}

func (h *history) snapshot() {
	s, err := h.m.Snapshot()
	require.NoError(h.t, err)
	sink, err := h.from.Snapshots.Create(raft.SnapshotVersionMax, h.from.Applied, 1, raft.Configuration{}, 1, nil)
	require.NoError(h.t, err)
	require.NoError(h.t, s.Persist(sink))
}

func fresh() *list { return &list{} }

func TestTo_entriesAndTimes(t *testing.T) {
	h := newHistory(t)
	h.write(raft.LogConfiguration, string(raft.EncodeConfiguration(raft.Configuration{})))
	h.command(10, "a")
	h.write(raft.LogNoop, "")
	h.command(20, "b") // 4
	h.snapshot()
	h.write(raft.LogCommand, "") // a barrier
	h.command(19, "d")           // 6: the clock of its leader is behind
	h.command(30, "e")
	h.snapshot() // at index 7
	h.command(40, "f")

	at := func(to Moment) (string, uint64) {
		s, index, err := To(t.Context(), h.from, to, fresh)
		require.NoError(t, err)
		return s.Text, index
	}
	for index, want := range []string{1: "c", 2: "ca", 3: "ca", 4: "cab", 5: "cab", 6: "cabd", 7: "cabde", 8: "cabdef"} {
		if index == 0 {
			continue
		}
		text, got := at(Moment{Index: uint64(index)})
		require.Equal(t, want, text, "entry %d", index)
		require.EqualValues(t, index, got)
	}
	for seconds, want := range map[int64]struct {
		text  string
		index uint64
	}{5: {"c", 1}, 10: {"ca", 3}, 19: {"ca", 3}, 20: {"cabd", 6}, 35: {"cabde", 7}, 99: {"cabdef", 8}} {
		text, got := at(Moment{Time: time.Unix(seconds, 0)})
		require.Equal(t, want.text, text, "second %d", seconds)
		require.Equal(t, want.index, got, "second %d", seconds)
	}
	var ahead *TooNewError
	_, _, err := To(t.Context(), h.from, Moment{Index: 9}, fresh)
	require.ErrorAs(t, err, &ahead)
	require.EqualValues(t, 8, ahead.Newest)

	// The log is shortened. The older snapshot can be used only as long as the log continues it.
	require.NoError(t, h.from.Log.DeleteRange(1, 4))
	text, _ := at(Moment{Index: 5})
	require.Equal(t, "cab", text)
	old := func(to Moment) Moment {
		var old *TooOldError
		_, _, err := To(t.Context(), h.from, to, fresh)
		require.ErrorAs(t, err, &old)
		return old.Oldest
	}
	require.Equal(t, Moment{4, time.Unix(20, 0)}, old(Moment{Index: 3}))
	require.Equal(t, Moment{4, time.Unix(20, 0)}, old(Moment{Time: time.Unix(15, 0)}))
	require.NoError(t, h.from.Log.DeleteRange(5, 5))
	require.Equal(t, Moment{7, time.Unix(30, 0)}, old(Moment{Index: 6}))
	text, _ = at(Moment{Index: 7})
	require.Equal(t, "cabde", text)
}

// shortened is a log whose beginning is removed after the first call of FirstIndex.
type shortened struct {
	raft.LogStore
	t      *testing.T
	remove uint64
	looked int
}

func (s *shortened) FirstIndex() (uint64, error) {
	first, err := s.LogStore.FirstIndex()
	if s.looked++; s.looked == 1 {
		require.NoError(s.t, s.DeleteRange(1, s.remove))
	}
	return first, err
}

func TestTo_whileTheLogIsShortened(t *testing.T) {
	h := newHistory(t)
	for range 4 {
		h.command(10, "a")
	}
	log := &shortened{LogStore: h.from.Log, t: t, remove: 2}
	h.from.Log = log
	_, _, err := To(t.Context(), h.from, Moment{Index: 4}, fresh)
	require.ErrorContains(t, err, "no snapshot that the log continues", "the second look finds that there is nothing")
	require.Equal(t, 2, log.looked)
}

func TestTo_damageAndCancellation(t *testing.T) {
	h := newHistory(t)
	h.command(1, "a")
	h.from.Applied++
	require.NoError(t, h.from.Log.StoreLog(&raft.Log{Index: 2, Type: raft.LogCommand, Data: []byte("\x01!")}))
	_, _, err := To(t.Context(), h.from, Moment{Index: 2}, fresh)
	require.ErrorContains(t, err, "replay entry 2: it cannot be applied")

	ctx, leave := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	leave(enough)
	_, _, err = To(ctx, h.from, Moment{Index: 1}, fresh)
	require.ErrorIs(t, err, enough)
	h.snapshot()
	_, _, err = To(ctx, h.from, Moment{Index: 2}, fresh)
	require.ErrorIs(t, err, enough)
}
