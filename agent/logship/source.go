package logship

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/agent/tasklog"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// source is the output of a task on the node.
type source interface {
	// end returns the offset at which the output ends, and the offset up to which it is final, as far as the files
	// show.
	end() (there, closed uint64, err error)
	// read returns whole lines from an offset on.
	read(from uint64) (piece, error)
}

// piece is a part of a task's output.
type piece struct {
	tasklog.Piece
	// changed is when its file was last written to.
	changed int64
}

// logFiles is the log in a directory.
type logFiles string

func (dir logFiles) end() (there, closed uint64, err error) { return tasklog.End(string(dir)) }

func (dir logFiles) read(from uint64) (piece, error) {
	p, err := tasklog.ReadRaw(string(dir), from, maxPart)
	return piece{Piece: p}, err
}

// metrics ships the metrics file, up to the size limit. A file that shrank while its program ran was rewritten, and is
// shipped again. A file that is shorter after the end has lost its tail in a power cut: then the archive has more than
// the node. Anything else in its place counts as empty.
func (sh *shipment) metrics(ctx context.Context) (all bool, err error) {
	size, changed, err := taskfile.Size(sh.dir, sh.shipper.cfg.MetricsFile)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, taskfile.ErrNotRegular), errors.Is(err, taskfile.ErrNames):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look at metrics: %w", err)
	case uint64(size) < sh.mark.End(tasks.Metrics):
		if sh.ended && !sh.sawIt {
			return true, nil
		}
		sh.mark.Metrics, sh.mark.MetricsLimit, sh.stale = nil, 0, true
	}
	sh.sawIt = true
	if most := sh.shipper.cfg.MetricsBytes; most > 0 && size > most {
		size = most
		sh.stale = sh.stale || sh.mark.MetricsLimit == 0
		sh.mark.MetricsLimit = most
	}
	return sh.stream(ctx, tasks.Metrics, metricsFile{dir: sh.dir, name: sh.shipper.cfg.MetricsFile, size: size, changed: changed})
}

// seriesPause is how many times more rarely than the log the series of a running task are shipped: they are shipped
// whole.
const seriesPause = 10

// series ships the task's metric series, if they are due and have changed.
func (sh *shipment) series(ctx context.Context) error {
	flush := sh.shipper.cfg.Flush
	switch {
	case sh.shipper.cfg.SeriesFile == "" || !sh.ended && flush < 0:
		return nil
	case !sh.ended && sh.seriesAt.IsZero():
		sh.seriesAt = time.Now() // the first look starts a period
		return nil
	case !sh.ended && time.Since(sh.seriesAt) < seriesPause*flush:
		return nil
	}
	data, err := taskfile.Read(sh.dir, sh.shipper.cfg.SeriesFile, sh.shipper.cfg.SeriesBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, taskfile.ErrNotRegular), errors.Is(err, taskfile.ErrNames), errors.Is(err, taskfile.ErrTooLong):
		return nil // the task has no series, or has put another kind of file there
	case err != nil:
		return fmt.Errorf("read the series: %w", err)
	}
	sh.seriesAt = time.Now()
	if sum := sha256.Sum256(data); sh.mark.Series != nil && hex.EncodeToString(sum[:]) == sh.mark.Series.SHA256 {
		return nil
	}
	if err := sh.shipper.rate.Wait(ctx, len(data)); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	part, err := tasks.PutSeries(bounded, sh.shipper.cfg.Store, sh.task, sh.mark.Series, data)
	if err != nil {
		return err
	}
	sh.shipper.metrics.parts.Inc()
	sh.shipper.metrics.bytes.Add(float64(len(data)))
	sh.mark.Series, sh.stale = part, true
	return sh.save()
}

// metricsFile is a metrics file as it was when it was opened.
type metricsFile struct {
	dir, name     string
	size, changed int64
}

func (f metricsFile) end() (there, closed uint64, err error) { return uint64(f.size), 0, nil }

// read skips holes.
func (f metricsFile) read(from uint64) (piece, error) {
	file, err := taskfile.Open(f.dir, f.name)
	if err != nil {
		return piece{}, fmt.Errorf("open metrics: %w", err)
	}
	defer file.Close()
	begin, end := taskfile.Data(file, int64(from), f.size)
	data := make([]byte, min(maxPart, end-begin))
	n, err := file.ReadAt(data, begin)
	if err != nil && !errors.Is(err, io.EOF) {
		return piece{}, fmt.Errorf("read metrics: %w", err)
	}
	data = data[:n]
	// An incomplete line waits for its end, unless it is the last one.
	if at := bytes.LastIndexByte(data, '\n') + 1; at > 0 || len(data) < maxPart && end == f.size {
		data = data[:at]
	}
	return piece{Piece: tasklog.Piece{Offset: uint64(begin), Data: data}, changed: f.changed}, nil
}
