package uploads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/mindcoordinator/mind/archive"
)

// Pack is a pack in the archive.
type Pack struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// place is where a piece is.
type place struct {
	Pack int   `json:"p"`
	At   int64 `json:"a"`
}

// Stored is a complete tree in the archive.
type Stored struct {
	Tree
	// Packs have all of its pieces.
	Packs []Pack `json:"packs"`
	// Places says where each piece of Needs is.
	Places []place `json:"places"`
}

// ErrDamaged means that an upload is in the archive and cannot be used.
var ErrDamaged = errors.New("the upload is damaged in the archive")

// Load reads a complete tree of a tenant. The error is ErrUnknown if there is none.
func Load(ctx context.Context, store archive.Store, tenant, id string) (*Stored, error) {
	if !ValidID(id) {
		return nil, invalidf("%.100q is no upload: it has the form sha256:...", id)
	}
	text, err := read(ctx, store, treeKey(tenant, id), maxStored)
	if missing(err) {
		// It is about to be collected, and is put back by the next look at it.
		text, err = read(ctx, store, retiredKey(tenant, id), maxStored)
	}
	switch {
	case missing(err):
		return nil, ErrUnknown
	case err != nil:
		return nil, err
	}
	s := &Stored{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return s, s.check(id)
}

// check refuses a stored tree that is not the one that was asked for.
func (s *Stored) check(id string) error {
	if s.ID() != id {
		return fmt.Errorf("%w: its list of files is another one", ErrDamaged)
	}
	if err := s.Check(1 << 62); err != nil {
		return err
	}
	needs := s.Needs()
	if len(needs) != len(s.Places) {
		return fmt.Errorf("%w: it does not say where its pieces are", ErrDamaged)
	}
	for i, p := range s.Places {
		if p.Pack < 0 || p.Pack >= len(s.Packs) || p.At < 0 || p.At > s.Packs[p.Pack].Size-needs[i].Size {
			return fmt.Errorf("%w: piece %s is in no pack", ErrDamaged, needs[i].Sum)
		}
	}
	return nil
}

// read reads an object with at most a number of bytes.
func read(ctx context.Context, store archive.Store, key string, most int64) ([]byte, error) {
	body, err := store.Get(ctx, key, 0)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", key, err)
	case int64(len(text)) > most:
		return nil, fmt.Errorf("%s has more than %d bytes", key, most)
	}
	return text, nil
}

func put(ctx context.Context, store archive.Store, key string, text []byte) error {
	return store.Put(ctx, key, bytes.NewReader(text), int64(len(text)))
}

func putJSON(ctx context.Context, store archive.Store, key string, what any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // it makes six characters of one
	if err := e.Encode(what); err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	if text.Len() > maxStored {
		// An object that cannot be read again could not be removed either.
		return invalidf("the list of files is too long: leave some out with .mindignore")
	}
	return put(ctx, store, key, text.Bytes())
}
