package kernel

import (
	"iter"

	"github.com/cespare/xxhash/v2"
	"github.com/google/btree"
)

// treeDegree balances the cost of a search against that of copying a node when it is first changed after a publish;
// docs/decisions/0001-copy-on-write-btrees.md has the figures.
const treeDegree = 16

// Index is an ordered set that can be frozen in constant time: the frozen copy never changes, and what the working
// copy changes afterwards it copies first. Frozen copies may be read by anybody while the working copy is written.
type Index[T any] struct {
	tree    tree[T]
	frozen  tree[T]
	changed bool
}

// tree is a btree behind an interface. A package that names a generic type compiles all methods of it again, also of those that
// are only in a field somewhere below: with the btree itself in sight, that is 10,000 functions in every package that reads a View.
type tree[T any] interface {
	ReplaceOrInsert(T) (T, bool)
	Delete(T) (T, bool)
	Get(T) (T, bool)
	Has(T) bool
	Len() int
	Min() (T, bool)
	Ascend(btree.ItemIteratorG[T])
	AscendGreaterOrEqual(T, btree.ItemIteratorG[T])
	AscendRange(T, T, btree.ItemIteratorG[T])
	DescendLessOrEqual(T, btree.ItemIteratorG[T])
	clone() tree[T]
}

type bTree[T any] struct{ *btree.BTreeG[T] }

func (t bTree[T]) clone() tree[T] { return bTree[T]{t.Clone()} }

// NewIndex returns an empty one in an order.
func NewIndex[T any](less func(a, b T) bool) Index[T] {
	return Index[T]{tree: bTree[T]{btree.NewG(treeDegree, less)}, changed: true}
}

// Put puts in what takes the place of its equal.
func (x *Index[T]) Put(t T) {
	x.tree.ReplaceOrInsert(t)
	x.changed = true
}

// Delete takes out the equal of t.
func (x *Index[T]) Delete(t T) {
	x.tree.Delete(t)
	x.changed = true
}

// Has says whether there is an equal of t.
func (x *Index[T]) Has(t T) bool { return x.tree.Has(t) }

// Len is how many there are.
func (x *Index[T]) Len() int { return x.tree.Len() }

// Freeze returns a copy for a View. Only the owner of the working copy may call it.
func (x *Index[T]) Freeze() Index[T] {
	if x.changed || x.frozen == nil {
		x.frozen = x.tree.clone()
		x.changed = false
	}
	return Index[T]{tree: x.frozen}
}

// All iterates upwards.
func (x *Index[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { x.tree.Ascend(yield) }
}

// Get returns the equal of t.
func (x *Index[T]) Get(t T) (T, bool) { return x.tree.Get(t) }

// Min returns the first one; false: there is none.
func (x *Index[T]) Min() (T, bool) { return x.tree.Min() }

// AscendFrom calls yield for t and what comes after it, upwards, until it returns false.
func (x *Index[T]) AscendFrom(t T, yield func(T) bool) { x.tree.AscendGreaterOrEqual(t, yield) }

// DescendFrom calls yield for t and what comes before it, downwards, until it returns false.
func (x *Index[T]) DescendFrom(t T, yield func(T) bool) { x.tree.DescendLessOrEqual(t, yield) }

// AscendRange calls yield for what is from t on and before end, upwards, until it returns false.
func (x *Index[T]) AscendRange(t, end T, yield func(T) bool) { x.tree.AscendRange(t, end, yield) }

// Row is a row of a table: pointers to structs that do not change once they are in.
type Row interface {
	comparable
	Hashed
}

// record is a row in its table, with the hash that it adds to the table's sum.
type record[K any, R Row] struct {
	key  K
	row  R
	hash uint64
}

// Table is an ordered copy-on-write map from K to R with a running hash: the sum of the hashes of its rows, which does
// not depend on the order in which they came.
type Table[K any, R Row] struct {
	index Index[record[K, R]]
	// number is the record type in snapshots; it is hashed with every row, so that equal rows of two tables differ.
	number  uint16
	sum     uint64
	scratch Fields
}

// NewTable returns an empty table of a kind of record, ordered by its keys.
func NewTable[K any, R Row](number uint16, less func(a, b K) bool) Table[K, R] {
	return Table[K, R]{
		number: number,
		index:  NewIndex(func(a, b record[K, R]) bool { return less(a.key, b.key) }),
	}
}

// Get returns a row by its key.
func (t *Table[K, R]) Get(k K) (R, bool) {
	r, ok := t.index.tree.Get(record[K, R]{key: k})
	return r.row, ok
}

// Put puts a row in, in the place of the one with its key.
func (t *Table[K, R]) Put(k K, r R) {
	h := t.hashOf(r)
	old, had := t.index.tree.ReplaceOrInsert(record[K, R]{key: k, row: r, hash: h})
	if had {
		t.sum -= old.hash
	}
	t.sum += h
	t.index.changed = true
}

// Delete takes the row of a key out.
func (t *Table[K, R]) Delete(k K) {
	if old, had := t.index.tree.Delete(record[K, R]{key: k}); had {
		t.sum -= old.hash
		t.index.changed = true
	}
}

// Freeze returns a copy for a view. Only the owner of the working copy may call it.
func (t *Table[K, R]) Freeze() Table[K, R] {
	return Table[K, R]{index: t.index.Freeze(), number: t.number, sum: t.sum}
}

// Rows iterates the rows by key.
func (t *Table[K, R]) Rows() iter.Seq[R] {
	return func(yield func(R) bool) {
		t.index.tree.Ascend(func(r record[K, R]) bool { return yield(r.row) })
	}
}

// RowsFrom iterates the rows by key, from k on.
func (t *Table[K, R]) RowsFrom(k K) iter.Seq[R] {
	return func(yield func(R) bool) {
		t.index.tree.AscendGreaterOrEqual(record[K, R]{key: k}, func(r record[K, R]) bool { return yield(r.row) })
	}
}

// RowsDown iterates the rows by key downwards, from k on.
func (t *Table[K, R]) RowsDown(k K) iter.Seq[R] {
	return func(yield func(R) bool) {
		t.index.tree.DescendLessOrEqual(record[K, R]{key: k}, func(r record[K, R]) bool { return yield(r.row) })
	}
}

func (t *Table[K, R]) hashOf(r R) uint64 {
	t.scratch = r.AppendFields(t.scratch[:0].Num(uint64(t.number)))
	return xxhash.Sum64(t.scratch)
}

// recount computes the sum again from the rows. It is for checks: sum must be equal to it.
func (t *Table[K, R]) recount() uint64 {
	var sum uint64
	var f Fields
	for r := range t.Rows() {
		f = r.AppendFields(f[:0].Num(uint64(t.number)))
		sum += xxhash.Sum64(f)
	}
	return sum
}

// Len is how many rows there are.
func (t *Table[K, R]) Len() int { return t.index.Len() }

// First returns the first key and its row; false: there is none.
func (t *Table[K, R]) First() (k K, r R, ok bool) {
	first, ok := t.index.Min()
	return first.key, first.row, ok
}
