// Package tasks lays out the output of tasks in an archive: logs and metrics in parts, and a manifest for each task.
//
//	manifests/JOB/ATTEMPT/RANK/TOKEN.json
//	parts/JOB/ATTEMPT/RANK/TOKEN/log/OFFSET
//	parts/JOB/ATTEMPT/RANK/TOKEN/metrics/OFFSET
//	parts/JOB/ATTEMPT/RANK/TOKEN/series/SLOT
//
// Contract: one writer, the agent of the task's node, puts parts and, after them, a manifest that names them; any
// number of readers read the named parts. A part has whole lines, byte for byte as on the node, and its offset is the
// offset of its first byte in the whole log, including removed segments: a reader can switch between the node and the
// archive by offset.
//
// Guarantees: the parts in a manifest exist and have their digests, which readers check. A final manifest names all
// output of the task that its node still had.
//
// Not guaranteed: that the archive has the newest output of a running task. The package never removes objects: a
// lifecycle rule of the bucket, or a cleanup job for the directory, decides how long old jobs are kept.
package tasks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mindcoordinator/mind/archive"
)

// Task identifies a task. Its token makes its parts unique.
type Task struct {
	Job     string `json:"job"`
	Attempt int32  `json:"attempt"`
	Rank    int32  `json:"rank"`
	Token   uint64 `json:"token"`
}

// Stream is one of the outputs of a task.
type Stream string

// The streams of a task.
const (
	Log     Stream = "log"
	Metrics Stream = "metrics"
)

// series is the stream of the metric series. They are one file, which changes as a whole: a new version is put into the
// other one of two slots, so that a reader still finds the version in the manifest that it has read.
const series Stream = "series"

const seriesSlots = 2

// Part is a piece of a stream.
type Part struct {
	Offset uint64 `json:"offset"`
	Size   uint64 `json:"size"`
	SHA256 string `json:"sha256"`
	// UnixNanos is when the node's file had last changed.
	UnixNanos int64 `json:"unix_nanos,omitempty"`
}

// End returns the offset behind the part.
func (p Part) End() uint64 { return p.Offset + p.Size }

// formatVersion is the version of the format of manifests and parts.
const formatVersion = 1

// Manifest lists the archived output of a task.
type Manifest struct {
	Version int `json:"version"`
	Task
	Node string `json:"node"`
	// The parts of each stream, in the order of their offsets. A gap between two parts was removed by the node's size
	// limit before it was archived.
	Log     []Part `json:"log,omitempty"`
	Metrics []Part `json:"metrics,omitempty"`
	// MetricsLimit is the offset from which on metrics are not read, if the task wrote more.
	MetricsLimit int64 `json:"metrics_limit,omitempty"`
	// Series is the file with the metric series; its offset is its slot.
	Series *Part `json:"series,omitempty"`
	// Final: the task has ended, and this is all of its output.
	Final     bool  `json:"final"`
	UnixNanos int64 `json:"unix_nanos"`
}

// Parts returns the parts of a stream.
func (m *Manifest) Parts(s Stream) []Part {
	if s == Metrics {
		return m.Metrics
	}
	return m.Log
}

// End returns the offset at which the archived part of a stream ends.
func (m *Manifest) End(s Stream) uint64 {
	parts := m.Parts(s)
	if len(parts) == 0 {
		return 0
	}
	return parts[len(parts)-1].End()
}

// PutPart stores a part and returns its entry for the manifest. A part that has grown may be put again.
func PutPart(ctx context.Context, store archive.Store, t Task, s Stream, offset uint64, data []byte) (Part, error) {
	sum := sha256.Sum256(data)
	part := Part{Offset: offset, Size: uint64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	if err := store.Put(ctx, partKey(t, s, offset), bytes.NewReader(data), int64(len(data))); err != nil {
		return Part{}, err
	}
	return part, nil
}

// PutSeries stores the metric series of a task, and returns their entry for the manifest. old is the present entry.
func PutSeries(ctx context.Context, store archive.Store, t Task, old *Part, data []byte) (*Part, error) {
	slot := uint64(0)
	if old != nil {
		slot = (old.Offset + 1) % seriesSlots
	}
	part, err := PutPart(ctx, store, t, series, slot, data)
	return &part, err
}

// PutManifest stores the manifest.
func PutManifest(ctx context.Context, store archive.Store, m *Manifest) error {
	m.Version = formatVersion
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	return store.Put(ctx, manifests(m.Job, m.Attempt, m.Rank)+fmt.Sprintf("%020d.json", m.Token), bytes.NewReader(data), int64(len(data)))
}

// maxManifest limits the size of a manifest.
const maxManifest = 16 << 20

// Find returns the manifest of a task, or archive.ErrNotFound. An attempt has only one token; if it had several, the
// newest would count.
func Find(ctx context.Context, store archive.Store, job string, attempt, rank int32) (*Manifest, error) {
	objects, err := store.List(ctx, manifests(job, attempt, rank))
	if err != nil {
		return nil, err
	}
	for i := len(objects) - 1; i >= 0; i-- {
		if !strings.HasSuffix(objects[i].Key, ".json") {
			continue
		}
		body, err := store.Get(ctx, objects[i].Key, 0)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(body, maxManifest))
		if err := errors.Join(err, body.Close()); err != nil {
			return nil, fmt.Errorf("read manifest %s: %w", objects[i].Key, err)
		}
		m := &Manifest{}
		if err := json.Unmarshal(data, m); err != nil {
			return nil, fmt.Errorf("manifest %s is damaged: %w", objects[i].Key, err)
		}
		if m.Version != formatVersion {
			return nil, fmt.Errorf("manifest %s has version %d; this program reads version %d", objects[i].Key, m.Version, formatVersion)
		}
		return m, nil
	}
	return nil, fmt.Errorf("attempt %d, rank %d of job %s: %w", attempt, rank, job, archive.ErrNotFound)
}

func manifests(job string, attempt, rank int32) string {
	return fmt.Sprintf("manifests/%s/%d/%d/", job, attempt, rank)
}

func partKey(t Task, s Stream, offset uint64) string {
	return fmt.Sprintf("parts/%s/%d/%d/%020d/%s/%020d", t.Job, t.Attempt, t.Rank, t.Token, s, offset)
}
