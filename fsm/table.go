package fsm

import (
	"iter"

	"github.com/cespare/xxhash/v2"
	"github.com/google/btree"
)

// treeDegree balances the cost of a search against that of copying a node when it is first changed after a publish;
// docs/decisions/0001-copy-on-write-btrees.md has the figures.
const treeDegree = 16

// index is an ordered set that can be frozen in constant time: the frozen copy never changes, and what the working
// copy changes afterwards it copies first. Frozen copies may be read by anybody while the working copy is written.
type index[T any] struct {
	tree    *btree.BTreeG[T]
	frozen  *btree.BTreeG[T]
	changed bool
}

func newIndex[T any](less func(a, b T) bool) index[T] {
	return index[T]{tree: btree.NewG(treeDegree, less), changed: true}
}

func (x *index[T]) put(t T) {
	x.tree.ReplaceOrInsert(t)
	x.changed = true
}

func (x *index[T]) delete(t T) {
	x.tree.Delete(t)
	x.changed = true
}

func (x *index[T]) has(t T) bool { return x.tree.Has(t) }

func (x *index[T]) len() int { return x.tree.Len() }

// freeze returns a copy for a View. Only the owner of the working copy may call it.
func (x *index[T]) freeze() index[T] {
	if x.changed || x.frozen == nil {
		x.frozen = x.tree.Clone()
		x.changed = false
	}
	return index[T]{tree: x.frozen}
}

// all iterates upwards.
func (x *index[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) { x.tree.Ascend(yield) }
}

// row is what a table holds: pointers to structs that do not change once they are in.
type row interface {
	comparable
	// appendFields writes every field, for the hash.
	appendFields(fields) fields
}

// record is a row in its table, with the hash that it adds to the table's sum.
type record[K any, R row] struct {
	key  K
	row  R
	hash uint64
}

// table is an ordered copy-on-write map from K to R with a running hash: the sum of the hashes of its rows, which does
// not depend on the order in which they came.
type table[K any, R row] struct {
	index[record[K, R]]
	// number is the record type in snapshots; it is hashed with every row, so that equal rows of two tables differ.
	number  uint16
	sum     uint64
	scratch fields
}

func newTable[K any, R row](number uint16, less func(a, b K) bool) table[K, R] {
	return table[K, R]{
		number: number,
		index:  newIndex(func(a, b record[K, R]) bool { return less(a.key, b.key) }),
	}
}

func (t *table[K, R]) get(k K) (R, bool) {
	r, ok := t.tree.Get(record[K, R]{key: k})
	return r.row, ok
}

func (t *table[K, R]) put(k K, r R) {
	h := t.hashOf(r)
	old, had := t.tree.ReplaceOrInsert(record[K, R]{key: k, row: r, hash: h})
	if had {
		t.sum -= old.hash
	}
	t.sum += h
	t.changed = true
}

func (t *table[K, R]) delete(k K) {
	if old, had := t.tree.Delete(record[K, R]{key: k}); had {
		t.sum -= old.hash
		t.changed = true
	}
}

func (t *table[K, R]) freeze() table[K, R] {
	return table[K, R]{index: t.index.freeze(), number: t.number, sum: t.sum}
}

func (t *table[K, R]) rows() iter.Seq[R] {
	return func(yield func(R) bool) {
		t.tree.Ascend(func(r record[K, R]) bool { return yield(r.row) })
	}
}

func (t *table[K, R]) rowsFrom(k K) iter.Seq[R] {
	return func(yield func(R) bool) {
		t.tree.AscendGreaterOrEqual(record[K, R]{key: k}, func(r record[K, R]) bool { return yield(r.row) })
	}
}

func (t *table[K, R]) rowsDown(k K) iter.Seq[R] {
	return func(yield func(R) bool) {
		t.tree.DescendLessOrEqual(record[K, R]{key: k}, func(r record[K, R]) bool { return yield(r.row) })
	}
}

func (t *table[K, R]) hashOf(r R) uint64 {
	t.scratch = r.appendFields(t.scratch[:0].num(uint64(t.number)))
	return xxhash.Sum64(t.scratch)
}

// recount computes the sum anew from the rows. It is for checks: sum must be equal to it.
func (t *table[K, R]) recount() uint64 {
	var sum uint64
	var f fields
	for r := range t.rows() {
		f = r.appendFields(f[:0].num(uint64(t.number)))
		sum += xxhash.Sum64(f)
	}
	return sum
}
