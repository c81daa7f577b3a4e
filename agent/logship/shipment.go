package logship

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/archive/tasks"
)

const (
	// maxPart limits a part. No line of metrics is longer.
	maxPart = 4 << 20
	// regrow is the size up to which the part at the open end of a log is replaced when the log has grown; so a slow
	// log does not become many small parts, and a fast one is not sent twice.
	regrow = 1 << 20
	// stepParts limits what is shipped of one task before others get their turn.
	stepParts = 8
	// markFile, in the task's directory, records what was shipped.
	markFile = "archived.json"
	// maxMark limits the size of the mark file.
	maxMark = 64 << 20
)

// shipment is the shipping of one task. One worker at a time calls step; the rest belongs to Shipper.Run.
type shipment struct {
	shipper *Shipper
	task    tasks.Task
	dir     string
	ended   bool

	// The fields below belong to the worker.
	mark    *tasks.Manifest
	stale   bool // the archive's manifest is older than the mark
	flushed map[tasks.Stream]time.Time
	// seriesAt is when the series were last checked.
	seriesAt time.Time
	sawIt    bool // the metrics file was looked at while it was at least as long as what was shipped of it
	final    bool
	more     bool // waits to be shipped at once
	err      error

	busy      bool
	pause     time.Duration
	notBefore time.Time
	lookedAt  time.Time
}

// step ships some of the output that is due.
func (sh *shipment) step(ctx context.Context) {
	sh.more = false
	sh.err = sh.try(ctx)
}

func (sh *shipment) try(ctx context.Context) error {
	if _, err := os.Stat(sh.dir); errors.Is(err, fs.ErrNotExist) {
		return nil // the task has not begun, or its directory is gone
	}
	if err := sh.begin(); err != nil {
		return err
	}
	if sh.final {
		return nil
	}
	allLog, err := sh.stream(ctx, tasks.Log, logFiles(filepath.Join(sh.dir, sh.shipper.cfg.LogDir)))
	if err != nil {
		return err
	}
	allMetrics, err := sh.metrics(ctx)
	if err != nil {
		return err
	}
	if err := sh.series(ctx); err != nil {
		return err
	}
	final := sh.ended && allLog && allMetrics
	sh.more = sh.ended && !final
	if !sh.stale && !final {
		return nil
	}
	// The directory may have been removed while it was read; then the end that was found is not the real one.
	if _, err := os.Stat(sh.dir); err != nil {
		return fmt.Errorf("look at the task again: %w", err)
	}
	m := *sh.mark
	m.Final, m.UnixNanos = final, time.Now().UnixNano()
	bounded, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := tasks.PutManifest(bounded, sh.shipper.cfg.Store, &m); err != nil {
		return err
	}
	sh.stale = false
	if !final {
		return nil
	}
	*sh.mark = m
	if err := sh.save(); err != nil {
		return err
	}
	sh.final = true
	sh.shipper.metrics.finished.Inc()
	return nil
}

// begin reads the mark of an earlier agent.
func (sh *shipment) begin() error {
	if sh.mark != nil {
		return nil
	}
	mark := &tasks.Manifest{Task: sh.task, Node: sh.shipper.cfg.Node}
	data, err := taskfile.Read(sh.dir, markFile, maxMark)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, taskfile.ErrNotRegular), errors.Is(err, taskfile.ErrNames), errors.Is(err, taskfile.ErrTooLong):
		// The task has put the file there; the next mark replaces it.
	case err != nil:
		return fmt.Errorf("read what was shipped: %w", err)
	default:
		// If a mark cannot be read, everything is shipped again.
		if json.Unmarshal(data, mark) != nil || mark.Task != sh.task {
			mark = &tasks.Manifest{Task: sh.task, Node: sh.shipper.cfg.Node}
		}
	}
	sh.mark, sh.final = mark, mark.Final
	// It is unknown whether the manifest was written after the parts.
	sh.stale = !mark.Final && (len(mark.Log)+len(mark.Metrics) > 0 || mark.Series != nil)
	sh.flushed = map[tasks.Stream]time.Time{}
	return nil
}

func (sh *shipment) save() error {
	data, err := json.Marshal(sh.mark)
	if err != nil {
		return fmt.Errorf("encode what was shipped: %w", err)
	}
	if err := taskfile.Replace(sh.dir, markFile, data); err != nil {
		return fmt.Errorf("write what was shipped: %w", err)
	}
	return nil
}

// stream ships the output of one stream that is due; all reports whether nothing is left.
func (sh *shipment) stream(ctx context.Context, s tasks.Stream, from source) (all bool, err error) {
	// The first look starts a period: new output is not due at once.
	if sh.flushed[s].IsZero() {
		sh.flushed[s] = time.Now()
	}
	for range stepParts {
		there, closed, err := from.end()
		if err != nil {
			return false, err
		}
		end := sh.mark.End(s)
		switch {
		case there <= end:
			return true, nil
		case sh.ended, closed > end, there-end >= maxPart/2:
		case sh.shipper.cfg.Flush < 0 || time.Since(sh.flushed[s]) < sh.shipper.cfg.Flush:
			return false, nil
		}
		p, err := sh.next(s, from)
		if err != nil {
			return false, err
		}
		if len(p.Data) == 0 || p.Offset+uint64(len(p.Data)) <= end {
			return true, nil // nothing is left, or an incomplete line
		}
		if err := sh.put(ctx, s, p); err != nil {
			return false, err
		}
		sh.flushed[s] = time.Now()
	}
	return false, nil
}

// next reads the next piece to ship: from the start of the last part if that is a small one that has grown.
func (sh *shipment) next(s tasks.Stream, from source) (piece, error) {
	parts, end := sh.mark.Parts(s), sh.mark.End(s)
	if n := len(parts); n > 0 && parts[n-1].Size < regrow {
		p, err := from.read(parts[n-1].Offset)
		if err != nil || p.Offset+uint64(len(p.Data)) > end {
			return p, err
		}
		// The segment ended with the last part.
	}
	return from.read(end)
}

// put ships a piece, and replaces the last part if it starts there.
func (sh *shipment) put(ctx context.Context, s tasks.Stream, p piece) error {
	if err := sh.shipper.rate.Wait(ctx, len(p.Data)); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	part, err := tasks.PutPart(bounded, sh.shipper.cfg.Store, sh.task, s, p.Offset, p.Data)
	if err != nil {
		return err
	}
	part.UnixNanos = p.changed
	sh.shipper.metrics.parts.Inc()
	sh.shipper.metrics.bytes.Add(float64(len(p.Data)))
	parts := &sh.mark.Log
	if s == tasks.Metrics {
		parts = &sh.mark.Metrics
	}
	for n := len(*parts); n > 0 && (*parts)[n-1].Offset >= part.Offset; n-- {
		*parts = (*parts)[:n-1]
	}
	*parts = append(*parts, part)
	sh.stale = true
	return sh.save()
}
