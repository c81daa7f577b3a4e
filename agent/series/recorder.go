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

// SaveEvery is how often the file of a task that runs is written.
const SaveEvery = 30 * time.Second

// Recorder records the series of one task. It is safe for concurrent use.
type Recorder struct {
	dir string
	has holding.Holding
	log *slog.Logger

	mu  sync.Mutex
	set *series.Set // nil before Begin
	// behind are the lines that were written before Begin, and are new.
	behind span
	// seen is the offset behind the last line that was shown, whether it was new or not.
	seen int64
	// fields holds those of one line.
	fields []field
	// full: a number had no room.
	full bool
	// changed: the file is older than the set; ended: nothing more is taken.
	changed, ended bool
	savedAt        time.Time

	saving sync.Mutex
}

// span is a part of the metrics file, and when it was written, in Unix milliseconds.
type span struct {
	from, to     int64
	begin, ended int64
}

// at is when the line that ends at an offset was written, if it was written in the span, as steadily as the others.
func (s span) at(end int64) (at int64, ok bool) {
	if end <= s.from || end > s.to {
		return 0, false
	}
	share := float64(end-s.from) / float64(s.to-s.from)
	return s.begin + int64(share*float64(s.ended-s.begin)), true
}

// Begin takes over what an earlier agent recorded. size and changed are those of the metrics file now, and started is when
// the task was started, in Unix milliseconds.
func (r *Recorder) Begin(size, changed, started int64) {
	set, err := load(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("the history of a task's numbers is made again from its metrics file", "dir", r.dir, "error", err)
	}
	if set == nil {
		set = series.New()
	}
	if size < set.MetricsOffset {
		set.MetricsOffset = 0 // it was rewritten
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set, r.savedAt = set, time.Now()
	begin := max(started, set.Newest())
	r.behind = span{from: set.MetricsOffset, to: size, begin: begin, ended: max(begin, changed)}
}

// Line takes a line of the metrics file that ends at an offset, and which was there at a time in Unix milliseconds. It
// returns false when a number has no room, the first time that this happens.
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

// sample takes the sensors of the task's GPUs.
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

// Save writes the file if it is due. last: the task has ended, and all that it wrote was read; nothing is taken after that.
func (r *Recorder) Save(now time.Time, last bool) {
	r.mu.Lock()
	due := r.set != nil && r.changed && (last || now.Sub(r.savedAt) >= SaveEvery)
	r.ended = r.ended || last
	r.mu.Unlock()
	if due {
		r.save(now)
	}
}

// close writes the file when the agent leaves the task.
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
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // its directory was removed
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
