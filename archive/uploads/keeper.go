package uploads

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/archive"
)

// Config configures a Keeper.
type Config struct {
	Store archive.Store
	// Bytes limits the files of a tree together; 0: DefaultBytes.
	Bytes int64
	// Keep is how long content without a job is kept; 0: 24 h.
	Keep time.Duration
}

// DefaultKeep is how long content without a job is kept.
const DefaultKeep = 24 * time.Hour

// Keeper takes uploads into an archive. It is safe for concurrent use.
type Keeper struct {
	cfg Config

	mu sync.Mutex
	// known are the packs whose indices were read, by the keys of their indices.
	known map[string]*packIndex
	// pieces counts the pieces of known.
	pieces int
	// packsBy has the packs of trees, by the keys of the trees (Collect).
	packsBy map[string]treePacks
}

// packIndex says what a pack has.
type packIndex struct {
	Pack
	Pieces []Piece `json:"pieces"`
}

// NewKeeper returns a Keeper for an archive.
func NewKeeper(cfg Config) *Keeper {
	cfg.Bytes, cfg.Keep = cmp.Or(cfg.Bytes, DefaultBytes), cmp.Or(cfg.Keep, DefaultKeep)
	return &Keeper{cfg: cfg, known: map[string]*packIndex{}, packsBy: map[string]treePacks{}}
}

// Limits tells clients how much a Keeper takes.
type Limits struct {
	MaxBytes int64 `json:"max_bytes"`
	MaxFiles int   `json:"max_files"`
	// PieceBytes is the size of the pieces of a file, PackBytes that of a pack.
	PieceBytes  int `json:"piece_bytes"`
	PackBytes   int `json:"pack_bytes"`
	KeepSeconds int `json:"keep_seconds"`
}

// Limits returns how much a Keeper takes.
func (k *Keeper) Limits() Limits {
	return Limits{MaxBytes: k.cfg.Bytes, MaxFiles: MaxFiles, PieceBytes: PieceSize, PackBytes: PackSize, KeepSeconds: int(k.cfg.Keep / time.Second)}
}

// Offer takes a tree of a tenant if the archive has all of its pieces; otherwise it returns the missing ones.
func (k *Keeper) Offer(ctx context.Context, tenant string, tree *Tree) (id string, lacks []Need, err error) {
	if err := tree.Check(k.cfg.Bytes); err != nil {
		return "", nil, err
	}
	all, err := k.indices(ctx, tenant)
	if err != nil {
		return "", nil, err
	}
	id = tree.ID()
	s, lacks := locate(tree, all)
	if len(lacks) > 0 {
		return id, lacks, nil
	}
	return id, nil, putJSON(ctx, k.cfg.Store, treeKey(tenant, id), s)
}

// locate finds the pieces of a tree in packs.
func locate(tree *Tree, all []*packIndex) (*Stored, []Need) {
	type spot struct {
		pack *packIndex
		at   int64
	}
	where := make(map[Piece]spot)
	for _, p := range all {
		at := int64(0)
		for _, piece := range p.Pieces {
			if _, ok := where[piece]; !ok {
				where[piece] = spot{p, at}
			}
			at += piece.Size
		}
	}
	s := &Stored{Tree: *tree}
	numbers := make(map[*packIndex]int)
	var lacks []Need
	for _, need := range tree.Needs() {
		found, ok := where[Piece{need.Sum, need.Size}]
		if !ok {
			lacks = append(lacks, need)
			continue
		}
		number, ok := numbers[found.pack]
		if !ok {
			number = len(s.Packs)
			numbers[found.pack] = number
			s.Packs = append(s.Packs, found.pack.Pack)
		}
		s.Places = append(s.Places, place{number, found.at})
	}
	return s, lacks
}

const (
	// readers is how many indices are read at a time.
	readers = 8
	// maxKnown limits the pieces that a Keeper remembers: about 100 bytes each.
	maxKnown = 500_000
)

// indices returns what the packs of a tenant have, in the order of their names. It asks the archive which ones there are each
// time: another Keeper may have added some, or retired some.
func (k *Keeper) indices(ctx context.Context, tenant string) ([]*packIndex, error) {
	objects, err := k.cfg.Store.List(ctx, folder(tenant)+index)
	if err != nil {
		return nil, err
	}
	all := make([]*packIndex, len(objects))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, readers)
	var group sync.WaitGroup
	for i, o := range objects {
		if all[i] = k.knows(o.Key); all[i] != nil {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			var err error
			if all[i], err = k.index(ctx, o.Key); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	there := all[:0]
	for _, p := range all {
		if p != nil {
			there = append(there, p)
		}
	}
	return there, nil
}

func (k *Keeper) knows(key string) *packIndex {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[key]
}

// index reads the index of a pack; nil: it was retired meanwhile.
func (k *Keeper) index(ctx context.Context, key string) (*packIndex, error) {
	text, err := read(ctx, k.cfg.Store, key, MaxPack)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &packIndex{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s is damaged in the archive: remove it: %w", key, err)
	}
	k.remember(key, p)
	return p, nil
}

func (k *Keeper) remember(key string, p *packIndex) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pieces+len(p.Pieces) > maxKnown {
		k.known, k.pieces = map[string]*packIndex{}, 0
	}
	k.known[key] = p
	k.pieces += len(p.Pieces)
}

// PutPack stores a pack that a tenant has sent, and returns how many pieces it has. Each pack has a name of its own, also if
// the same one is sent twice: so nothing that is collected ever comes back under its name.
func (k *Keeper) PutPack(ctx context.Context, tenant string, sent []byte) (int, error) {
	pieces, content, err := decodePack(sent)
	if err != nil {
		return 0, err
	}
	p := &packIndex{Pack: Pack{Name: strings.ToLower(rand.Text()), SHA256: Sum(content), Size: int64(len(content))}, Pieces: pieces}
	// The index comes last: what it lists is there.
	if err := put(ctx, k.cfg.Store, PackKey(tenant, p.Name), content); err != nil {
		return 0, err
	}
	return len(pieces), putJSON(ctx, k.cfg.Store, indexKey(tenant, p.Name), p)
}

// Confirm returns ErrUnknown unless a tenant has a complete tree. It makes an old tree new, so that the tree is kept until a job
// that is submitted now names it.
func (k *Keeper) Confirm(ctx context.Context, tenant, id string) error {
	key := treeKey(tenant, id)
	objects, err := k.cfg.Store.List(ctx, key)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.Key == key && time.Since(o.Modified) < k.cfg.Keep/2 {
			return nil
		}
	}
	s, err := Load(ctx, k.cfg.Store, tenant, id)
	if err != nil {
		return err
	}
	return putJSON(ctx, k.cfg.Store, key, s) // it is new again
}
