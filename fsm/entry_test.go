package fsm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

func TestEntry_commandsKeepTheirOrder(t *testing.T) {
	w := newWorld(t)
	res := w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "a"}}, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{oneGPU()}}, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{oneGPU()}}, clusterverbs.Tick{})
	require.Len(t, res, 4)
	require.Equal(t, "a", res[0].(queueverbs.QueueResult).Queue.Name)
	require.Equal(t, ident.Job(1<<16), res[1].(jobverbs.SubmitJobsResult).Results[0].Job)
	require.Equal(t, ident.Job(1<<16+1), res[2].(jobverbs.SubmitJobsResult).Results[0].Job)
	require.IsType(t, clusterverbs.TickResult{}, res[3])
	require.Empty(t, w.do())
}

func TestEntry_timeNeverGoesBack(t *testing.T) {
	w := newWorld(t)
	w.do(clusterverbs.Tick{})
	w.later(-time.Hour)
	w.do(clusterverbs.Tick{})
	require.Equal(t, startOfTime, w.m.View().Now())
	w.now = startOfTime + 5
	w.do(clusterverbs.Tick{})
	require.Equal(t, startOfTime+5, w.m.View().Now())
}

func TestEntry_idsRunOutPolitely(t *testing.T) {
	w := newWorld(t)
	m := fsm.New()
	jobs := make([]jobverbs.NewJob, kernel.MaxIDsPerEntry+1)
	for i := range jobs {
		jobs[i].Tenant = fmt.Sprint("t", i%10)
	}
	jobs[3].Array = &jobverbs.NewArray{End: 9}
	res := m.Apply(1, w.entry(jobverbs.SubmitJobs{Jobs: jobs}))[0].(jobverbs.SubmitJobsResult).Results
	require.Nil(t, res[kernel.MaxIDsPerEntry-1].Refusal)
	require.Equal(t, kernel.CodeResourceExhausted, res[kernel.MaxIDsPerEntry].Refusal.Code)
	last, _ := m.View().Job(ident.Job(1<<16 + kernel.MaxIDsPerEntry - 2))
	require.NotNil(t, last)
	array, _ := m.View().Job(ident.Job(1<<16 + kernel.MaxIDsPerEntry - 1))
	require.NotNil(t, array.Array, "the last id is kept for arrays")
}

func TestApply_stopsAtWhatItCannotUnderstand(t *testing.T) {
	w := newWorld(t)
	good := w.entry(clusterverbs.Tick{}, queueverbs.PutQueue{Queue: work.Queue{Name: "a"}})
	command := func(number uint16, flags byte, body ...byte) []byte {
		c := append(binary.BigEndian.AppendUint16(nil, number), flags)
		return kernel.Pack(level.Newest, time.Unix(0, 1), [][]byte{append(c, body...)})
	}
	edit := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	tests := map[string]struct {
		entry []byte
		says  string
	}{
		"nothing":              {nil, "shorter than its header"},
		"a newer version":      {edit(0, byte(level.Newest)+1), fmt.Sprintf("version %d; this version of mind reads versions %d to %d", level.Newest+1, level.Oldest, level.Newest)},
		"version 0":            {edit(0, 0), "version 0"},
		"an earlier line":      {edit(1, 0), "entry format 0; this version of mind reads format 1"},
		"cut off":              {good[:len(good)-1], "cut off"},
		"too much":             {append(bytes.Clone(good), 0), "1 bytes after the last command"},
		"too many commands":    {edit(10, 127), "127 commands do not fit"},
		"unknown command":      {command(999, 0), "unknown command type 999: a newer version of mind wrote it"},
		"no CBOR":              {command(7, 0, 0xff), "decoding PutQueue"},
		"an unknown field":     {command(7, 0, 0xa1, 0x18, 99, 1), "decoding PutQueue"},
		"a wrong type":         {command(7, 0, 0xa1, 1, 1), "decoding PutQueue"},
		"jobs of a newer form": {command(1, 0, 8, 0), "form of version 1"},
		"jobs beyond count":    {command(1, 0, 1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f), "cut off"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			m := fsm.New()
			before := m.View()
			require.PanicsWithValue(t, stopsWith{c.says}, func() {
				defer func() {
					text, _ := recover().(string)
					require.Contains(t, text, "log entry 1 cannot be applied, so this replica stops")
					require.Contains(t, text, c.says)
					panic(stopsWith{c.says})
				}()
				m.Apply(1, c.entry)
			})
			require.Same(t, before, m.View(), "no part of the entry was applied")
		})
	}
	require.Equal(t, []any{kernel.Ignored{}}, fsm.New().Apply(1, command(999, 1)))
}

type stopsWith struct{ text string }

func TestApply_refusesAnEntryTwice(t *testing.T) {
	w := newWorld(t)
	w.do(clusterverbs.Tick{})
	require.Panics(t, func() { w.m.Apply(1, w.entry(clusterverbs.Tick{})) })
}

func TestEncode_textThatIsNotUTF8DoesNotStopReplicas(t *testing.T) {
	w := newWorld(t)
	w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "a\xff"}}, nodeverbs.SetNode{ID: "\xfe"}, jobverbs.ControlJob{Reason: "\xff"})
	_, ok := w.m.View().Queue("a\xff")
	require.True(t, ok)
	require.NoError(t, fsm.New().Restore(bytes.NewReader(snapshotBytes(t, w.m))))
}

// FuzzDecodeEntry holds that bytes from anywhere are decoded or refused, and that what is decoded can be applied.
func FuzzDecodeEntry(f *testing.F) {
	for _, e := range story(f).log {
		f.Add(e.Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if fsm.CheckEntry(data) != nil {
			return
		}
		w := story(t)
		w.m.Apply(w.index+1, data)
		require.Empty(t, fsm.Check(w.m.View()))
	})
}

// FuzzRestoreSnapshot holds that a damaged snapshot is refused, whatever the damage, also where the checksum is right.
func FuzzRestoreSnapshot(f *testing.F) {
	raw := snapshotBytes(f, story(f).m)
	f.Add(raw, false)
	f.Add(raw[:len(raw)/2], false)
	f.Add(raw, true)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed && len(data) > 64 {
			data = seal(data)
		}
		m := fsm.New()
		if m.Restore(bytes.NewReader(data)) != nil {
			require.Zero(t, m.View().Index())
			return
		}
		require.Equal(t, m.View().Recount(), m.View().Hash())
		require.NotEmpty(t, snapshotBytes(t, m))
	})
}
