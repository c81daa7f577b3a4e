package observe

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/safedir"
)

const (
	// trainerQuiet is how long a checkpoint with the state of its trainer must stay unchanged: other ranks may still
	// add their small files.
	trainerQuiet = 2 * time.Second
	// otherQuiet is how long any other checkpoint with whole weights must stay unchanged; and every checkpoint of a
	// program that writes events, because that is expected to report its checkpoints, too.
	otherQuiet = time.Minute
	// trainerState is the file that the trainer of transformers writes last.
	trainerState = "trainer_state.json"
	// maxDescription limits how much of a file is read to see whether a checkpoint is whole.
	maxDescription = 16 << 20
)

// stillness is the state of a directory that is written in place, and since when it is unchanged.
type stillness struct {
	digest string
	newest unix.Timespec
	since  time.Time
	whole  wholeness
}

// wholeness is how much of a checkpoint its contents show to be whole.
type wholeness int

const (
	unknown      wholeness = iota
	wholeWeights           // all files of weights have the length that their headers state
	wholeTrainer           // also, the state of the trainer, which is written last, is of this step
)

// settled reports whether a directory that is written in place is a finished checkpoint: its contents show that it is
// whole, and nothing has changed for a while. over: the program has ended, so nothing more will be written.
func (c *checkpointDir) settled(ctx context.Context, dir *safedir.Dir, name string, over bool, left *int) (bool, error) {
	if !strings.HasPrefix(name, "checkpoint") || stepOf(name) == 0 {
		return false, nil
	}
	now, err := stillnessOf(ctx, dir, name, left)
	if err != nil {
		return false, err
	}
	now.since = c.now
	was, seen := c.still[name]
	if seen && was.digest == now.digest && was.newest == now.newest {
		now.since, now.whole = was.since, was.whole
	} else if now.whole, err = wholenessOf(ctx, dir, name, left); err != nil {
		return false, err
	}
	c.still[name] = now
	quiet := c.now.Sub(now.since)
	switch {
	case now.whole == unknown:
		return false, nil
	case over:
		return now.whole == wholeTrainer || quiet >= otherQuiet, nil
	case now.whole == wholeTrainer && !c.reports:
		return quiet >= trainerQuiet, nil
	}
	return quiet >= otherQuiet, nil
}

func stillnessOf(ctx context.Context, dir *safedir.Dir, name string, left *int) (s stillness, err error) {
	m, err := manifestBelow(ctx, dir, name, left)
	if err != nil {
		return s, err
	}
	s.digest = m.digest
	err = below(dir, name, func(d *safedir.Dir) error {
		return d.Walk(ctx, left, func(e safedir.Entry) error {
			if compare(e.Changed, s.newest) > 0 {
				s.newest = e.Changed
			}
			return nil
		})
	})
	return s, err
}

// wholenessOf determines the wholeness of a checkpoint from its contents.
func wholenessOf(ctx context.Context, dir *safedir.Dir, name string, left *int) (w wholeness, err error) {
	err = below(dir, name, func(d *safedir.Dir) error {
		sizes := make(map[string]int64)
		if err := d.Walk(ctx, left, func(e safedir.Entry) error {
			if e.Regular {
				sizes[e.Path] = e.Size
			}
			return nil
		}); err != nil {
			return err
		}
		weights := false
		for file, size := range sizes {
			switch {
			case strings.HasSuffix(file, ".safetensors"):
				weights = true
				if !isWhole(d, file, size) {
					return nil
				}
			case strings.HasSuffix(file, ".index.json"):
				if !hasAll(d, file, sizes) {
					return nil
				}
			}
		}
		var state struct {
			Step *int64 `json:"global_step"`
		}
		switch {
		case readJSON(d, trainerState, &state) && state.Step != nil && *state.Step == stepOf(name):
			w = wholeTrainer
		case weights && sizes[trainerState] == 0:
			w = wholeWeights
		}
		return nil
	})
	return w, err
}

// isWhole compares the length of a file of weights with that in its header.
func isWhole(d *safedir.Dir, name string, size int64) bool {
	file, err := d.File(name)
	if err != nil {
		return false
	}
	defer file.Close()
	var length uint64
	if binary.Read(file, binary.LittleEndian, &length) != nil || length > maxDescription {
		return false
	}
	text := make([]byte, length)
	var header map[string]json.RawMessage
	if _, err := io.ReadFull(file, text); err != nil || json.Unmarshal(text, &header) != nil {
		return false
	}
	end := int64(0)
	for tensor, raw := range header {
		var at struct {
			Offsets [2]int64 `json:"data_offsets"`
		}
		if tensor == "__metadata__" {
			continue
		}
		if json.Unmarshal(raw, &at) != nil {
			return false
		}
		end = max(end, at.Offsets[1])
	}
	return size == 8+int64(length)+end
}

// hasAll reports whether all files exist that an index of shards names.
func hasAll(d *safedir.Dir, name string, sizes map[string]int64) bool {
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	if !readJSON(d, name, &index) {
		return false
	}
	for _, file := range index.Files {
		if _, ok := sizes[path.Join(path.Dir(name), file)]; !ok {
			return false
		}
	}
	return true
}

func readJSON(d *safedir.Dir, name string, into any) bool {
	file, err := d.File(name)
	if err != nil {
		return false
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxDescription+1))
	return err == nil && len(text) <= maxDescription && json.Unmarshal(text, into) == nil
}
