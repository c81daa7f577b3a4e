package ship

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/agent/tasklog"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// source is what a task writes, as it is on the node.
type source interface {
	// end is the offset up to which something is there, and that up to which
	// nothing will be added any more, as far as files tell.
	end() (there, closed uint64, err error)
	// read returns whole lines from an offset on.
	read(from uint64) (piece, error)
}

// piece is some of what a task wrote.
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

// metrics ships the metrics file. One that shrank while its program ran was begun anew by it, and so is what was shipped of it.
// One that is found shorter after the end has lost its tail in a power cut: the archive has more of it than the node.
func (sh *shipment) metrics(ctx context.Context) (all bool, err error) {
	path := filepath.Join(sh.dir, sh.shipper.cfg.MetricsFile)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look at metrics: %w", err)
	case uint64(info.Size()) < sh.mark.End(tasks.Metrics):
		if sh.ended && !sh.sawIt {
			return true, nil
		}
		sh.mark.Metrics, sh.stale = nil, true
	}
	sh.sawIt = true
	return sh.stream(ctx, tasks.Metrics, metricsFile{path: path, size: info.Size(), changed: info.ModTime().UnixNano()})
}

// metricsFile is a file of metrics as it was when it was looked at.
type metricsFile struct {
	path          string
	size, changed int64
}

func (f metricsFile) end() (there, closed uint64, err error) { return uint64(f.size), 0, nil }

func (f metricsFile) read(from uint64) (piece, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return piece{}, fmt.Errorf("open metrics: %w", err)
	}
	defer file.Close()
	data := make([]byte, min(maxPart, max(0, f.size-int64(from))))
	n, err := file.ReadAt(data, int64(from))
	if err != nil && !errors.Is(err, io.EOF) {
		return piece{}, fmt.Errorf("read metrics: %w", err)
	}
	data = data[:n]
	// Half a line waits for its end, unless nobody would read it anyway.
	if end := bytes.LastIndexByte(data, '\n') + 1; end > 0 || len(data) < maxPart {
		data = data[:end]
	}
	return piece{Piece: tasklog.Piece{Offset: from, Data: data}, changed: f.changed}, nil
}
