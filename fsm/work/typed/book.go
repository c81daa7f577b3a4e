package typed

import "github.com/mindcoordinator/mind/fsm/kernel"

// Book counts the GPUs of each type that owners, tenants or queues, hold, in thousandths. Its methods read; Hold and Flush change
// it. A frozen copy has what was there at the last Flush.
type Book struct {
	rows  kernel.Index[count]
	slots map[key]*slot
	dirty []*slot
}

type key struct{ owner, name string }

type count struct {
	key
	milli int
}

type slot struct {
	count
	dirty bool
}

// NewBook returns an empty one.
func NewBook() Book {
	return Book{slots: map[key]*slot{}, rows: kernel.NewIndex(func(a, b count) bool {
		return a.owner < b.owner || a.owner == b.owner && a.name < b.name
	})}
}

// Freeze returns a copy for a view.
func Freeze(b *Book) Book { return Book{rows: b.rows.Freeze()} }

// Hold counts what an owner begins to hold of a type, or gives back.
func Hold(b *Book, owner, name string, milli int) {
	if milli == 0 {
		return
	}
	k := key{owner, name}
	s, ok := b.slots[k]
	if !ok {
		s = &slot{count: count{key: k}}
		b.slots[k] = s
	}
	if s.milli += milli; !s.dirty {
		s.dirty = true
		b.dirty = append(b.dirty, s)
	}
}

// Flush brings what was counted into what views read.
func Flush(b *Book) {
	for _, s := range b.dirty {
		s.dirty = false
		if s.milli != 0 {
			b.rows.Put(s.count)
			continue
		}
		b.rows.Delete(s.count)
		delete(b.slots, s.key)
	}
	b.dirty = b.dirty[:0]
}

// Held is the number of GPUs of a type that an owner holds, in thousandths.
func (b *Book) Held(owner, name string) int {
	if b.slots != nil {
		if s, ok := b.slots[key{owner, name}]; ok {
			return s.milli
		}
		return 0
	}
	c, _ := b.rows.Get(count{key: key{owner, name}})
	return c.milli
}

// Of calls f for each type that an owner holds something of, in order. It sees what was flushed.
func (b *Book) Of(owner string, f func(name string, milli int)) {
	b.rows.AscendFrom(count{key: key{owner: owner}}, func(c count) bool {
		if c.owner != owner {
			return false
		}
		f(c.name, c.milli)
		return true
	})
}

// All calls f for everything that was flushed.
func (b *Book) All(f func(owner, name string, milli int)) {
	for c := range b.rows.All() {
		f(c.owner, c.name, c.milli)
	}
}
