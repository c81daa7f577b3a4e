package recovery

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/mindcoordinator/mind/raftnode/machine"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

// A saved state is a file that users keep outside of the cluster, and from which a new life can begin:
//
//	magic    8 bytes, "MINDSAVE"
//	version  2 bytes, big endian: 1
//	header   uvarint length, then JSON: Saved
//	state    chunks: uvarint length, then so many bytes; the last is empty
//	sum      32 bytes: SHA-256 of all before it
const (
	savedMagic   = "MINDSAVE"
	savedVersion = 1
	savedChunk   = 256 << 10
	savedHeader  = 1 << 20 // the most bytes of a header
)

// ErrNotSaved says that a file is not a saved state, or not a complete one.
var ErrNotSaved = errors.New("not a whole saved state")

// Saved describes a saved state.
type Saved struct {
	// Program is the version of mind that wrote it.
	Program string `json:"program"`
	// By is the id of the replica that wrote it, and At is when it did.
	By string    `json:"by"`
	At time.Time `json:"at"`
	// Stale says that it may lack writes that were acknowledged before At.
	Stale   bool            `json:"stale,omitempty"`
	Index   uint64          `json:"index"`
	Term    uint64          `json:"term"`
	Hash    string          `json:"hash"`
	Members []verify.Member `json:"members"`
}

// Save writes a saved state with its description.
func Save(w io.Writer, about Saved, state machine.Snapshot) error {
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	text, err := json.Marshal(about)
	if err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint16([]byte(savedMagic), savedVersion)
	head = binary.AppendUvarint(head, uint64(len(text)))
	if _, err := out.Write(append(head, text...)); err != nil {
		return err
	}
	chunks := bufio.NewWriterSize(chunkWriter{out}, savedChunk)
	if _, err := state.WriteTo(chunks); err != nil {
		return err
	}
	if err := chunks.Flush(); err != nil {
		return err
	}
	if _, err := out.Write([]byte{0}); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

type chunkWriter struct{ w io.Writer }

func (c chunkWriter) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if _, err := c.w.Write(binary.AppendUvarint(nil, uint64(len(b)))); err != nil {
		return 0, err
	}
	return c.w.Write(b)
}

// Load reads a saved state into a state machine. After an error the state must not be used, because the checksum is
// read last.
func Load(from io.Reader, into machine.StateMachine) (Saved, error) {
	var about Saved
	r := &summedReader{r: bufio.NewReaderSize(from, savedChunk), sum: sha256.New()}
	head := make([]byte, len(savedMagic)+2)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:len(savedMagic)]) != savedMagic {
		return about, fmt.Errorf("%w: it does not begin like one", ErrNotSaved)
	}
	if v := binary.BigEndian.Uint16(head[len(savedMagic):]); v != savedVersion {
		return about, fmt.Errorf("%w: it is of format %d, this version of mind reads format %d", ErrNotSaved, v, savedVersion)
	}
	size, err := binary.ReadUvarint(r)
	if err != nil || size > savedHeader {
		return about, fmt.Errorf("%w: its header is damaged", ErrNotSaved)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return about, fmt.Errorf("%w: it is cut off", ErrNotSaved)
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return about, fmt.Errorf("%w: its header is damaged: %w", ErrNotSaved, err)
	}
	chunks := &chunkReader{r: r}
	err = verify.Guarded(func() error { return into.Restore(chunks) })
	if err != nil {
		return about, fmt.Errorf("%w: %w", ErrNotSaved, err)
	}
	if err := chunks.end(); err != nil {
		return about, fmt.Errorf("%w: %w", ErrNotSaved, err)
	}
	want := r.sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r.r, got); err != nil {
		return about, fmt.Errorf("%w: it is cut off", ErrNotSaved)
	}
	if !bytes.Equal(got, want) {
		return about, fmt.Errorf("%w: its checksum is wrong", ErrNotSaved)
	}
	if _, err := r.r.ReadByte(); !errors.Is(err, io.EOF) {
		return about, fmt.Errorf("%w: something follows after its end", ErrNotSaved)
	}
	return about, nil
}

// summedReader computes the checksum of the bytes that are read.
type summedReader struct {
	r   *bufio.Reader
	sum hash.Hash
}

func (r *summedReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.sum.Write(b[:n])
	return n, err
}

func (r *summedReader) ReadByte() (byte, error) {
	b, err := r.r.ReadByte()
	if err == nil {
		r.sum.Write([]byte{b})
	}
	return b, err
}

// chunkReader reads the content of chunks up to the empty one.
type chunkReader struct {
	r    *summedReader
	left uint64
	over bool
}

func (c *chunkReader) Read(b []byte) (int, error) {
	if c.left == 0 && !c.over {
		size, err := binary.ReadUvarint(c.r)
		if err != nil {
			return 0, errors.Join(errors.New("it is cut off"), err)
		}
		c.left, c.over = size, size == 0
	}
	if c.over {
		return 0, io.EOF
	}
	n, err := c.r.Read(b[:min(uint64(len(b)), c.left)])
	c.left -= uint64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// end returns an error if there are unread bytes.
func (c *chunkReader) end() error {
	if n, err := io.Copy(io.Discard, c); err != nil {
		return err
	} else if n > 0 {
		return fmt.Errorf("%d bytes follow after the state", n)
	}
	return nil
}

// Restore begins a new life from a saved state, in a directory that does not
// exist yet.
func Restore(file string, cfg Config) (Saved, Life, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return Saved{}, Life{}, err
	}
	f, err := os.Open(file)
	if err != nil {
		return Saved{}, Life{}, err
	}
	defer f.Close()
	sm := cfg.New()
	about, err := Load(f, sm)
	if err != nil {
		return about, Life{}, fmt.Errorf("%s: %w", file, err)
	}
	if got := sm.Hash(); got != about.Hash {
		return about, Life{}, fmt.Errorf("%s: %w: the state has the hash %s and should have %s", file, ErrNotSaved, got, about.Hash)
	}
	s := &seed{logStore: cfg.LogStore, voters: cfg.Voters, machine: machine.New(sm)}
	life, err := s.begin(cfg, about.Index, about.Term)
	if err != nil {
		return about, Life{}, err
	}
	return about, life, s.put(cfg.Dir)
}
