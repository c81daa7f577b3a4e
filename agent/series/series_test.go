package series

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/agent/device"
	"github.com/mindcoordinator/mind/agent/gpus"
	"github.com/mindcoordinator/mind/agent/gpus/holding"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/series"
)

var task = taskid.ID{Job: "job_1", Attempt: 1}

func open(t testing.TB, dir string, has holding.Holding) (*Book, *Recorder) {
	b := NewBook(slog.New(slog.DiscardHandler))
	return b, b.Open(task, dir, has)
}

// read returns the series by name.
func read(t require.TestingT, b *Book, dir string) map[string]*v1.MetricSeries {
	found, err := b.Read(task, dir, nil, 1000)
	require.NoError(t, err)
	byName := map[string]*v1.MetricSeries{}
	for _, one := range found {
		byName[one.GetName()] = one
	}
	return byName
}

func lasts(one *v1.MetricSeries) (all []float64) {
	for _, p := range one.GetPoints() {
		all = append(all, p.GetLast())
	}
	return all
}

func TestParse(t *testing.T) {
	nan := math.NaN()
	for line, want := range map[string]struct {
		step   int64
		fields []field
	}{
		`{"step": 3, "loss": 0.5, "total_steps": 9, "max_steps": 9}`: {3, []field{{"loss", 0.5}}},
		`{"loss": 0.5, "step": 3, "note": "7", "ok": true}`:          {3, []field{{"loss", 0.5}}},
		`{"loss": NaN, "step": 1}`:                                   {1, []field{{"loss", nan}}},
		`{"loss": -Infinity}`:                                        {series.NoStep, []field{{"loss", nan}}},
		`{"loss": "nan"}`:                                            {series.NoStep, []field{{"loss", nan}}},
		`{"loss": null, "x": 1e400}`:                                 {series.NoStep, []field{{"x", nan}}},
		`{"note": "NaN here", "x": NaN, "y": 2}`:                     {series.NoStep, []field{{"x", nan}, {"y", 2}}},
		`{"step": -1, "eval": {"loss": 1, "by": {"a": 2}}}`:          {series.NoStep, []field{{"eval.loss", 1}, {"eval.by.a", 2}}},
		`{"gpu0.power_watts": 1, "gpu_hours": 2, "gpu12.x": 3}`:      {series.NoStep, []field{{"gpu_hours", 2}}},
		`{"a\u001b[2J": 1, "é": 2, "": 3}`:                           {series.NoStep, []field{{"é", 2}}},
		`{"a":{"b":{"c":{"d":1,"e":{"f":2}}}}}`:                      {series.NoStep, []field{{"a.b.c.d", 1}}},
		`{"loss": 0.5`:                                               {step: series.NoStep}, `[1]`: {step: series.NoStep}, `noise`: {step: series.NoStep}, ``: {step: series.NoStep},
		`{"list": [1, 2]}`: {step: series.NoStep},
	} {
		step, fields := parse([]byte(line), nil)
		require.Equal(t, want.step, step, line)
		require.Len(t, fields, len(want.fields), line)
		for i, f := range fields {
			require.Equal(t, want.fields[i].name, f.name, line)
			if math.IsNaN(want.fields[i].number) {
				require.True(t, math.IsNaN(f.number) || math.IsInf(f.number, 0), line)
			} else {
				require.Equal(t, want.fields[i].number, f.number, line)
			}
		}
	}
}

// If the program only appends, each line counts once in the end, whatever the agent does: it may be killed, restart, or
// read late. The program may also rewrite its file.
func TestRecorder_countsEachLineOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "series")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		b, r := open(nil, dir, holding.Holding{})
		type line struct {
			text string
			end  int64
		}
		var written []line
		shown, end, now := 0, int64(0), time.UnixMilli(1_700_000_000_000)
		r.Begin(0, 0, 0)
		show := func(upTo int) {
			for ; shown < upTo; shown++ {
				require.True(t, r.Line([]byte(written[shown].text), written[shown].end, now.UnixMilli()))
			}
		}
		restart := func() {
			b, r = open(nil, dir, holding.Holding{})
			r.Begin(end, now.UnixMilli(), 0)
			shown = 0 // the watcher passes the lines from the beginning of the file
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "lines") {
					text := fmt.Sprintf(`{"step": %d, "loss": %d}`, len(written), len(written)%17)
					end += int64(len(text)) + 1
					written = append(written, line{text, end})
				}
			},
			"look": func(t *rapid.T) { show(rapid.IntRange(shown, len(written)).Draw(t, "up to")) },
			"save": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
				r.Save(now, false)
			},
			"killed":  func(*rapid.T) { restart() },
			"stopped": func(*rapid.T) { b.Close(task, r); restart() },
		})
		show(len(written))
		r.Save(now, true)
		b.Close(task, r)
		require.True(t, r.Line([]byte(`{"loss": 1}`), end+100, now.UnixMilli()), "after the end nothing is taken")
		loss := read(t, b, dir)["loss"]
		total := int64(0)
		for _, p := range loss.GetPoints() {
			total += p.GetCount()
		}
		require.EqualValues(t, len(written), total)
		if n := len(written); n > 0 {
			require.EqualValues(t, n-1, loss.GetPoints()[len(loss.GetPoints())-1].GetStep())
		}
	})
}

func TestRecorder_aFileThatWasRewrittenIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	b, r := open(t, dir, holding.Holding{})
	r.Begin(0, 0, 0)
	r.Line([]byte(`{"loss": 1}`), 12, 1)
	r.Line([]byte(`{"loss": 2}`), 24, 2)
	r.Line([]byte(`{"loss": 3}`), 12, 3) // the file was rewritten
	require.Equal(t, []float64{1, 2, 3}, lasts(read(t, b, dir)["loss"]))
	b.Close(task, r)

	b, r = open(t, dir, holding.Holding{})
	r.Begin(5, 0, 0) // while no agent ran
	r.Line([]byte(`{"loss": 4}`), 12, 4)
	require.Equal(t, []float64{1, 2, 3, 4}, lasts(read(t, b, dir)["loss"]))
}

// Lines that were written while no agent ran get times between the last known one and the last change of the file.
func TestRecorder_estimatesWhenLinesCame(t *testing.T) {
	times := func(b *Book, dir string) (all []int64) {
		for _, p := range read(t, b, dir)["loss"].GetPoints() {
			all = append(all, p.GetTime().AsTime().UnixMilli())
		}
		return all
	}
	dir := t.TempDir()
	b, r := open(t, dir, holding.Holding{})
	r.Begin(200, 5000, 1000)
	r.Line([]byte(`{"loss": 1}`), 50, 5100)
	r.Line([]byte(`{"loss": 2}`), 200, 5100)
	r.Line([]byte(`{"loss": 3}`), 250, 5200)
	require.Equal(t, []int64{2000, 5000, 5200}, times(b, dir))
	b.Close(task, r)

	b, r = open(t, dir, holding.Holding{})
	r.Begin(350, 9200, 1000)
	for i, end := range []int64{50, 200, 250, 300, 350, 400} {
		r.Line(fmt.Appendf(nil, `{"loss": %d}`, i+1), end, 9999)
	}
	require.Equal(t, []int64{2000, 5000, 5200, 7200, 9200, 9999}, times(b, dir))
}

func TestRecorder_aDamagedFileIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, File), []byte("torn"), 0o600))
	b, r := open(t, dir, holding.Holding{})
	_, err := b.Read(task, dir, nil, 10)
	require.ErrorIs(t, err, series.ErrDamaged)
	r.Begin(12, 0, 0)
	r.Line([]byte(`{"loss": 1}`), 12, 1)
	b.Close(task, r)
	require.Equal(t, []float64{1}, lasts(read(t, b, dir)["loss"]))
}

func TestRecorder_saysOnceThatANumberHasNoRoom(t *testing.T) {
	dir := t.TempDir()
	_, r := open(t, dir, holding.Holding{})
	r.Begin(0, 0, 0)
	refused := 0
	for i := range 2 * series.MaxReported {
		if !r.Line(fmt.Appendf(nil, `{"n%d": 1}`, i), int64(i+1), 1) {
			refused++
		}
	}
	require.Equal(t, 1, refused)
}

// A task has the series of its GPUs, and of no others.
func TestBook_samplesTheGPUsOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, other := t.TempDir(), t.TempDir()
		b, r := open(t, dir, holding.Holding{GPUs: []int32{1}, Shared: true})
		idle := b.Open(taskid.ID{Job: "job_2", Attempt: 1}, other, holding.Holding{})
		r.Begin(0, 0, 0)
		idle.Begin(0, 0, 0)
		asked := 0
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.Sample(ctx, func(context.Context) ([]gpus.Reading, error) {
				if asked++; asked == 2 {
					return nil, device.ErrHung
				}
				return []gpus.Reading{
					{Index: 0, Reading: device.Reading{Utilization: 1, MemoryUsed: 1, Celsius: 1, Watts: 1}},
					{Index: 1, Reading: device.Reading{Utilization: float64(asked) / 10, MemoryUsed: 1 << 30, Celsius: -1, Watts: 300}},
				}, nil
			})
		}()
		r.Line([]byte(`{"step": 7}`), 12, 1)
		time.Sleep(3*sampleEvery + time.Millisecond)
		found := read(t, b, dir)
		require.Len(t, found, 3)
		busy := found["gpu1.utilization_ratio"]
		require.Equal(t, []float64{0.1, 0.3}, lasts(busy))
		require.EqualValues(t, 7, busy.GetPoints()[0].GetStep())
		require.Equal(t, "ratio", busy.GetUnit())
		require.True(t, busy.GetShared())
		require.Equal(t, []float64{300, 300}, lasts(found["gpu1.power_watts"]))
		require.Equal(t, "bytes", found["gpu1.memory_used_bytes"].GetUnit())

		b.Close(task, r)
		time.Sleep(3 * sampleEvery)
		require.Equal(t, 3, asked, "nobody has a GPU any more")
		require.Equal(t, []float64{0.1, 0.3}, lasts(read(t, b, dir)["gpu1.utilization_ratio"]), "from the file")
		stop()
		<-done
		none, err := b.Read(taskid.ID{Job: "job_2", Attempt: 1}, other, nil, 10)
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

func BenchmarkLine(b *testing.B) {
	_, r := open(b, b.TempDir(), holding.Holding{})
	r.Begin(0, 0, 0)
	line, err := json.Marshal(map[string]any{"step": 12345, "loss": 2.3456, "learning_rate": 1e-5, "grad_norm": 0.7312, "tokens_per_second": 15320.5, "epoch": 0.37})
	require.NoError(b, err)
	end := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		end += int64(len(line)) + 1
		r.Line(line, end, end)
	}
}

// BenchmarkMemory reports the memory that the series of a task use.
func BenchmarkMemory(b *testing.B) {
	for _, names := range []int{5, 16, 256} {
		b.Run(fmt.Sprint(names, "names"), func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				_, r := open(b, b.TempDir(), holding.Holding{})
				r.Begin(0, 0, 0)
				for i := range 5000 {
					for n := range names {
						r.set.Add(series.Number{Name: fmt.Sprint("name", n)}, series.Value{At: int64(i), Step: int64(i), Number: float64(i)})
					}
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				data, err := r.set.Encode()
				require.NoError(b, err)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1024, "KiB/task")
				b.ReportMetric(float64(len(data))/1024, "KiB/file")
			}
		})
	}
}
