package series

import (
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/agent/gpus"
	"github.com/mindcoordinator/mind/agent/gpus/holding"
	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/api/series"
)

// File is the name of the file in the task's directory.
const File = "series"

// SaveEvery is how often the file of a running task is written.
const SaveEvery = 30 * time.Second

// Recorder records the series of one task. It is safe for concurrent use.
type Recorder struct {
	dir string
	has holding.Holding
	log *slog.Logger

	mu  sync.Mutex
	set *series.Set // nil before Begin
	// behind is the span of the new lines that were written before Begin.
	behind span
	// seen is the offset behind the last line that was passed to Line, whether it was new or not.
	seen int64
	// fields holds the numbers of one line; it is reused.
	fields []field
	// full: there was no room for a number.
	full bool
	// changed: the file is older than the set; ended: no more numbers are recorded.
	changed, ended bool
	savedAt        time.Time

	saving sync.Mutex
}

// span is a part of the metrics file, with the time range in which it was written, in Unix milliseconds.
type span struct {
	from, to     int64
	begin, ended int64
}

// at estimates when the line that ends at an offset was written, if it is in the span, as if the lines had been written
// at a steady pace.
func (s span) at(end int64) (at int64, ok bool) {
	if end <= s.from || end > s.to {
		return 0, false
	}
	share := float64(end-s.from) / float64(s.to-s.from)
	return s.begin + int64(share*float64(s.ended-s.begin)), true
}

// Begin takes over the series that an earlier agent recorded. size and changed are the current size and change time of
// the metrics file, and started is when the task was started, in Unix milliseconds.
func (r *Recorder) Begin(size, changed, started int64) {
	set, err := load(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("the history of a task's numbers is made again from its metrics file", "dir", r.dir, "error", err)
	}
	if set == nil {
		set = series.New()
	}
	if size < set.MetricsOffset {
		set.MetricsOffset = 0 // the metrics file was rewritten
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set, r.savedAt = set, time.Now()
	begin := max(started, set.Newest())
	r.behind = span{from: set.MetricsOffset, to: size, begin: begin, ended: max(begin, changed)}
}

// Line records the numbers of a line of the metrics file. end is the offset at which the line ends, at the time at
// which it was read, in Unix milliseconds. Line returns false the first time that there is no room for a number.
func (r *Recorder) Line(text []byte, end, at int64) (room bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set == nil || r.ended {
		return true
	}
	if end <= r.seen {
		r.set.MetricsOffset, r.behind = 0, span{} // the file was rewritten
	}
	if written, ok := r.behind.at(end); ok {
		at = written
	}
	if r.seen = end; end <= r.set.MetricsOffset {
		return true
	}
	r.set.MetricsOffset = end
	step, fields := parse(text, r.fields[:0])
	if r.fields = fields; step != series.NoStep {
		r.set.Step = step
	}
	room = true
	for _, f := range fields {
		r.changed = true
		if !r.set.Add(series.Number{Name: f.name}, series.Value{At: at, Step: step, Number: f.number}) && !r.full {
			room, r.full = false, true
		}
	}
	return room
}

// sample records the sensor values of the task's GPUs.
func (r *Recorder) sample(at time.Time, readings []gpus.Reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set == nil || r.ended {
		return
	}
	for _, one := range readings {
		if !slices.Contains(r.has.GPUs, one.Index) {
			continue
		}
		for _, sensor := range [...]struct {
			name, unit string
			value      float64
		}{
			{"utilization_ratio", "ratio", one.Utilization},
			{"memory_used_bytes", "bytes", one.MemoryUsed},
			{"power_watts", "watts", one.Watts},
			{"temperature_celsius", "celsius", one.Celsius},
		} {
			if sensor.value < 0 {
				continue
			}
			r.changed = true
			r.set.Add(
				series.Number{Name: gpuPrefix + strconv.Itoa(int(one.Index)) + "." + sensor.name, Unit: sensor.unit, Shared: r.has.Shared},
				series.Value{At: at.UnixMilli(), Step: r.set.Step, Number: sensor.value},
			)
		}
	}
}

// Save writes the file if it is due. last: the task has ended, and all of its output was read; nothing is recorded
// after that.
func (r *Recorder) Save(now time.Time, last bool) {
	r.mu.Lock()
	due := r.set != nil && r.changed && (last || now.Sub(r.savedAt) >= SaveEvery)
	r.ended = r.ended || last
	r.mu.Unlock()
	if due {
		r.save(now)
	}
}

// close writes the file when the agent stops following the task.
func (r *Recorder) close() {
	r.mu.Lock()
	due := r.set != nil && r.changed
	r.ended = true
	r.mu.Unlock()
	if due {
		r.save(time.Now())
	}
}

func (r *Recorder) save(now time.Time) {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	data, err := r.set.Encode()
	r.changed, r.savedAt = false, now
	r.mu.Unlock()
	if err == nil {
		err = taskfile.Replace(r.dir, File, data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // ErrNotExist: the task's directory was removed
		r.log.Warn("cannot keep the history of a task's numbers", "dir", r.dir, "error", err)
	}
}

// load reads the file.
func load(dir string) (*series.Set, error) {
	data, err := taskfile.Read(dir, File, series.MaxFile)
	if err != nil {
		return nil, err
	}
	return series.Decode(data)
}
