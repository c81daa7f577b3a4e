package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

const (
	stateFile = "state.bin"
	aboutFile = "about.json"
	magic     = uint64(0x317470636d6c6863) // "chlmcpt1"
)

// stateHeader is the beginning of a state file. The weights and both moments follow it, and then a CRC-32 of all this.
type stateHeader struct {
	Magic, Seed, Step, Letters, Batch, Params uint64
	Loss                                      float64
}

// save writes the checkpoint of the current step to a directory in dir and returns its path. The directory gets its
// name only when all of it is on the disk. A checkpoint that exists is not written again: the same step of the same
// seed has the same bytes.
func (t *trainer) save(dir string) (path string, err error) {
	path = filepath.Join(dir, fmt.Sprintf("checkpoint-%d", t.Step))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	aside := filepath.Join(dir, fmt.Sprintf(".writing-%d-%d", t.Step, os.Getpid()))
	if err := os.MkdirAll(aside, 0o755); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(aside))
		}
	}()
	about, err := json.Marshal(map[string]any{
		"step": t.Step, "loss": t.Loss, "learning_rate": rate(t.Step), "seed": t.seed,
	})
	if err != nil {
		return "", err
	}
	if err := writeDurably(filepath.Join(aside, aboutFile), append(about, '\n')); err != nil {
		return "", err
	}
	if err := writeDurably(filepath.Join(aside, stateFile), t.encode()); err != nil {
		return "", err
	}
	if err := syncDir(aside); err != nil {
		return "", err
	}
	if err := os.Rename(aside, path); err != nil {
		return "", err
	}
	return path, syncDir(dir)
}

func (t *trainer) encode() []byte {
	var b bytes.Buffer
	parts := []any{t.header(), t.model.params, t.first, t.moved}
	for _, part := range parts {
		// This cannot fail: it writes types of a fixed size into memory.
		_ = binary.Write(&b, binary.LittleEndian, part)
	}
	return binary.LittleEndian.AppendUint32(b.Bytes(), crc32.ChecksumIEEE(b.Bytes()))
}

func (t *trainer) header() stateHeader {
	return stateHeader{
		Magic: magic, Seed: t.seed, Step: uint64(t.Step), Letters: uint64(t.model.letters),
		Batch: uint64(len(t.places)), Params: uint64(len(t.model.params)), Loss: t.Loss,
	}
}

// load restores the training from a checkpoint directory. It refuses a checkpoint with another seed, batch or text,
// because the training would not continue exactly.
func (t *trainer) load(dir string) error {
	h, weights, err := readState(dir)
	if err != nil {
		return err
	}
	return t.restore(h, weights)
}

// trained returns a training with the seed and the batch of a checkpoint, and its state.
func trained(c *corpus, dir string) (*trainer, error) {
	h, weights, err := readState(dir)
	if err != nil {
		return nil, err
	}
	t := newTrainer(c, h.Seed, int(min(h.Batch, math.MaxInt16)))
	return t, t.restore(h, weights)
}

// readState returns the header of a state file, and what follows it up to the checksum.
func readState(dir string) (h stateHeader, weights *bytes.Reader, err error) {
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil, fmt.Errorf("there is no checkpoint of charlm: %w", err)
	}
	if err != nil {
		return h, nil, err
	}
	body := len(b) - 4
	if body < 0 || crc32.ChecksumIEEE(b[:body]) != binary.LittleEndian.Uint32(b[body:]) {
		return h, nil, fmt.Errorf("%s is damaged (its checksum is wrong)", stateFile)
	}
	weights = bytes.NewReader(b[:body])
	if err := binary.Read(weights, binary.LittleEndian, &h); err != nil {
		return h, nil, fmt.Errorf("reading the header of %s: %w", stateFile, err)
	}
	return h, weights, nil
}

func (t *trainer) restore(h stateHeader, weights *bytes.Reader) error {
	want := t.header()
	want.Step, want.Loss = h.Step, h.Loss
	if h != want || h.Step > math.MaxInt32 || weights.Len() != 3*8*len(t.model.params) {
		return fmt.Errorf("it was made with other options or another text (its seed is %d, its batch %d)", h.Seed, h.Batch)
	}
	for _, part := range [][]float64{t.model.params, t.first, t.moved} {
		if err := binary.Read(weights, binary.LittleEndian, part); err != nil {
			return fmt.Errorf("reading %s: %w", stateFile, err)
		}
	}
	t.Step, t.Loss = int(h.Step), h.Loss
	return nil
}

func writeDurably(path string, content []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
