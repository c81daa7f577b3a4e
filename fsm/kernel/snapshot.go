package kernel

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
)

// A snapshot is
//
//	magic    8 bytes
//	version  2 bytes, big endian: the feature level of the state
//	header   uvarint length, CBOR
//	records  uvarint type (not 0), uvarint length, CBOR; in the order of their types and of their keys
//	end      uvarint 0
//	trailer  32 bytes: SHA-256 of all before it
//
// Equal states make equal bytes.
const (
	snapshotMagic = "MINDSTAT"
	// earlierMagic began the snapshots of an earlier line of levels.
	earlierMagic = "MINDSNAP"

	// maxSnapshotRecord bounds one record when reading.
	maxSnapshotRecord = 256 << 20
)

type snapshotHeader struct {
	Index uint64 `cbor:"1,keyasint"`
	Now   int64  `cbor:"2,keyasint"`
	Hash  uint64 `cbor:"3,keyasint"`
}

// Snapshot is a state to be written. It holds a View, so that entries are applied while it is written.
type Snapshot struct {
	view *View
}

// Snapshot takes one of the newest published state. It costs nothing until it is written.
func (m *Machine[V, E]) Snapshot() *Snapshot { return &Snapshot{view: m.published.Load().frozen} }

// Index is that of the last entry in it.
func (s *Snapshot) Index() uint64 { return s.view.Index() }

// Hash is that of the state in it.
func (s *Snapshot) Hash() uint64 { return s.view.Hash() }

// Release lets go of the state.
func (s *Snapshot) Release() { s.view = nil }

// WriteTo writes the snapshot, and returns how many bytes it has.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	sw := &snapshotWriter{out: bufio.NewWriterSize(w, 256<<10), sum: sha256.New()}
	if err := s.write(sw); err != nil {
		return sw.n, fmt.Errorf("writing a snapshot of index %d: %w", s.view.Index(), err)
	}
	return sw.n, nil
}

func (s *Snapshot) write(w *snapshotWriter) error {
	v := s.view
	head := binary.BigEndian.AppendUint16([]byte(snapshotMagic), uint16(v.Level()))
	if err := w.write(head); err != nil {
		return err
	}
	if err := w.block(snapshotHeader{Index: v.Index(), Now: v.Now(), Hash: v.Hash()}); err != nil {
		return err
	}
	for _, r := range v.state.registry.records {
		err := r.Save(v.state, func(row any) error {
			w.prefix = binary.AppendUvarint(w.prefix[:0], uint64(r.Number))
			if err := w.write(w.prefix); err != nil {
				return err
			}
			return w.block(row)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	if err := w.write([]byte{0}); err != nil {
		return err
	}
	if err := w.write(w.sum.Sum(nil)); err != nil {
		return err
	}
	return w.out.Flush()
}

type snapshotWriter struct {
	out    *bufio.Writer
	sum    hash.Hash
	n      int64
	prefix []byte
}

func (w *snapshotWriter) write(b []byte) error {
	n, err := w.out.Write(b)
	w.sum.Write(b[:n])
	w.n += int64(n)
	return err
}

// block writes a length and that many bytes of CBOR.
func (w *snapshotWriter) block(v any) error {
	body, err := encMode.Marshal(v)
	if err != nil {
		return err
	}
	w.prefix = binary.AppendUvarint(w.prefix[:0], uint64(len(body)))
	if err := w.write(w.prefix); err != nil {
		return err
	}
	return w.write(body)
}
