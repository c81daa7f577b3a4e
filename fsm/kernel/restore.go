package kernel

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/mindcoordinator/mind/fsm/level"
)

// Restore replaces the state by the one in a snapshot. It builds a new state and verifies it whole before it lets go
// of the old one: after an error nothing has changed.
func (m *Machine[V, E]) Restore(r io.Reader) error {
	s, err := readSnapshot(m.config.Registry, r)
	if err != nil {
		return fmt.Errorf("restoring a snapshot: %w", err)
	}
	m.begin(s)
	m.events = append(m.events, m.config.Restored(s.Index()))
	m.settle()
	return nil
}

func readSnapshot(known *Registry, from io.Reader) (*State, error) {
	r := &snapshotReader{in: bufio.NewReaderSize(from, 256<<10), sum: sha256.New()}
	head, err := r.read(uint64(len(snapshotMagic) + 2))
	if err != nil {
		return nil, err
	}
	switch string(head[:len(snapshotMagic)]) {
	case snapshotMagic:
	case earlierMagic:
		return nil, errors.New("this snapshot is of an earlier format: start the version of mind that wrote it")
	default:
		return nil, errors.New("this is no snapshot of mind")
	}
	if v := binary.BigEndian.Uint16(head[len(snapshotMagic):]); !known.levels.Has(level.Level(min(v, 255))) {
		return nil, fmt.Errorf("snapshot version %d; this version of mind reads versions %d to %d", v, known.levels.Oldest, known.levels.Newest)
	}
	body, err := r.block()
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	var h snapshotHeader
	if err := decMode.Unmarshal(body, &h); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	s := newState(known)
	if err := r.records(s); err != nil {
		return nil, err
	}
	want := r.sum.Sum(nil)
	trailer, err := r.read(sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("trailer: %w", err)
	}
	if string(trailer) != string(want) {
		return nil, errors.New("the checksum is wrong: the snapshot is damaged")
	}
	s.base.Index = h.Index
	if s.base.Now != h.Now {
		return nil, fmt.Errorf("log time is %d in the header and %d in the state", h.Now, s.base.Now)
	}
	if got := s.hash(); got != h.Hash {
		return nil, fmt.Errorf("the state hash is %016x and should be %016x", got, h.Hash)
	}
	return s, nil
}

type snapshotReader struct {
	in  *bufio.Reader
	sum hash.Hash
	buf []byte
}

func (r *snapshotReader) records(s *State) error {
	for {
		number, err := r.number()
		if err != nil {
			return err
		}
		if number == 0 {
			return nil
		}
		var def RecordDef
		ok := number <= 1<<16-1
		if ok {
			def, ok = s.registry.byNumber[uint16(number)]
		}
		if !ok {
			return fmt.Errorf("unknown record type %d: a newer version of mind wrote it", number)
		}
		body, err := r.block()
		if err != nil {
			return fmt.Errorf("%s: %w", def.Name, err)
		}
		if err := def.Load(s, body); err != nil {
			return fmt.Errorf("%s: %w", def.Name, err)
		}
	}
}

// block reads a length and that many bytes. They are valid until the next read.
func (r *snapshotReader) block() ([]byte, error) {
	n, err := r.number()
	if err != nil {
		return nil, err
	}
	return r.read(n)
}

func (r *snapshotReader) number() (uint64, error) {
	var raw [binary.MaxVarintLen64]byte
	for i := range raw {
		b, err := r.in.ReadByte()
		if err != nil {
			return 0, cutOff(err)
		}
		raw[i] = b
		if b < 0x80 {
			r.sum.Write(raw[:i+1])
			n, used := binary.Uvarint(raw[:i+1])
			if used <= 0 {
				break
			}
			return n, nil
		}
	}
	return 0, errors.New("a number is too large")
}

// readChunk bounds what is allocated on the word of a length that may be wrong.
const readChunk = 1 << 20

func (r *snapshotReader) read(n uint64) ([]byte, error) {
	if n > maxSnapshotRecord {
		return nil, fmt.Errorf("a record of %d bytes; at most %d are taken", n, maxSnapshotRecord)
	}
	r.buf = r.buf[:0]
	for uint64(len(r.buf)) < n {
		from := len(r.buf)
		more := int(min(n-uint64(from), readChunk))
		if cap(r.buf)-from < more {
			r.buf = append(r.buf, make([]byte, more)...)
		} else {
			r.buf = r.buf[:from+more]
		}
		if _, err := io.ReadFull(r.in, r.buf[from:]); err != nil {
			return nil, cutOff(err)
		}
	}
	r.sum.Write(r.buf)
	return r.buf, nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the snapshot is cut off")
	}
	return err
}
