package workload

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// weightsFile is the file of a checkpoint with Weights bytes.
const weightsFile = "weights"

// checkpoint writes the next checkpoint of this life.
func (r *run) checkpoint(step int) error {
	r.lineage += fmt.Sprintf("%d %d\n", r.life.Attempt, step)
	return WriteCheckpoint(os.Getenv("MIND_CHECKPOINT_DIR"), r.life.Job, r.life.Attempt, step, r.spec.Weights, r.lineage)
}

// WriteCheckpoint writes a checkpoint with its lineage under a temporary name, and renames it. A checkpoint with
// weights is synced.
func WriteCheckpoint(dir, job string, attempt, step, size int, lineage string) error {
	sync := func(path string) error {
		if size == 0 {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}
	aside := filepath.Join(dir, fmt.Sprintf(".a%d-%d", attempt, step))
	if err := os.MkdirAll(aside, 0o755); err != nil {
		return err
	}
	files := map[string][]byte{lineageFile: []byte(lineage + "whole\n")}
	if size > 0 {
		files[weightsFile] = weights(job, attempt, step, size)
	}
	for name, text := range files {
		path := filepath.Join(aside, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
		if err := sync(path); err != nil {
			return err
		}
	}
	if err := sync(aside); err != nil {
		return err
	}
	if err := os.Rename(aside, filepath.Join(dir, fmt.Sprintf("a%d-checkpoint-%d", attempt, step))); err != nil {
		return err
	}
	return sync(dir)
}

// weights returns bytes that are unique to the checkpoint, in each of their parts.
func weights(job string, attempt, step, size int) []byte {
	var all []byte
	for n := 0; len(all) < size; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %d", job, attempt, step, n))
		all = append(binary.BigEndian.AppendUint64(all, uint64(n)), sum[:]...)
	}
	return all[:size]
}

// CheckCheckpoint reads a checkpoint with weights, and returns an error if it differs from what was written.
func CheckCheckpoint(path, job string, attempt, step, size int) error {
	descent, err := os.ReadFile(filepath.Join(path, lineageFile))
	if err != nil {
		return err
	}
	if !strings.HasSuffix(string(descent), fmt.Sprintf("%d %d\nwhole\n", attempt, step)) {
		return fmt.Errorf("its line of descent is torn: %q", descent)
	}
	have, err := os.ReadFile(filepath.Join(path, weightsFile))
	if err != nil {
		return err
	}
	if want := weights(job, attempt, step, size); !bytes.Equal(have, want) {
		at := 0
		for at < min(len(have), len(want)) && have[at] == want[at] {
			at++
		}
		return fmt.Errorf("its weights have %d bytes of %d and differ from byte %d on", len(have), len(want), at)
	}
	return nil
}
