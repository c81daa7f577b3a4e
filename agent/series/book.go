package series

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/agent/gpus"
	"github.com/mindcoordinator/mind/agent/gpus/holding"
	"github.com/mindcoordinator/mind/agent/taskid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// sampleEvery is how often the sensors are read while a task has GPUs.
	sampleEvery = 5 * time.Second
	// sampleTimeout limits one reading of the sensors.
	sampleTimeout = 4 * time.Second
)

// Book has the recorders of the tasks that the agent follows.
type Book struct {
	log *slog.Logger

	mu        sync.Mutex
	recorders map[taskid.ID]*Recorder
}

// NewBook makes a Book without recorders.
func NewBook(log *slog.Logger) *Book {
	return &Book{log: log, recorders: make(map[taskid.ID]*Recorder)}
}

// Open makes the recorder of a task that has the given GPUs.
func (b *Book) Open(id taskid.ID, dir string, has holding.Holding) *Recorder {
	r := &Recorder{dir: dir, has: has, log: b.log}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recorders[id] = r
	return r
}

// Close ends a recorder, and writes all that it recorded to the file.
func (b *Book) Close(id taskid.ID, r *Recorder) {
	r.close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.recorders[id] == r {
		delete(b.recorders, id)
	}
}

// Read returns series of the task in a directory, as Set.Select does. A task without recorded numbers has no series.
func (b *Book) Read(id taskid.ID, dir string, names []string, points int) ([]*v1.MetricSeries, error) {
	b.mu.Lock()
	r := b.recorders[id]
	b.mu.Unlock()
	if r != nil {
		if found, ok := r.read(names, points); ok {
			return found, nil
		}
	}
	set, err := load(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return set.Select(names, points), nil
}

func (r *Recorder) read(names []string, points int) (found []*v1.MetricSeries, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set == nil {
		return nil, false
	}
	return r.set.Select(names, points), true
}

// Sample reads the sensors of the GPUs for all tasks that have some, until ctx ends.
func (b *Book) Sample(ctx context.Context, read func(context.Context) ([]gpus.Reading, error)) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		with := b.withGPUs()
		if len(with) == 0 {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, sampleTimeout)
		readings, err := read(bounded)
		cancel()
		if err != nil {
			continue // the Monitor of package gpus reports it
		}
		now := time.Now()
		for _, r := range with {
			r.sample(now, readings)
		}
	}
}

func (b *Book) withGPUs() (all []*Recorder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.recorders {
		if len(r.has.GPUs) > 0 {
			all = append(all, r)
		}
	}
	return all
}
