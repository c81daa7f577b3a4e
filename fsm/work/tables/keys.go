package tables

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// keyName is what a key is looked up by.
type keyName struct{ tenant, key string }

// keyPlace orders keys by when they expire, which is the order in which they came, more or less: keys are random text,
// and a tree in the order of the text would have to copy a node for nearly every key. They are looked up in
// working.keys, because only the applying goroutine does.
type keyPlace struct {
	expiresAt int64
	job       ident.Job
	row       *work.IdempotencyKey
}

func placeOf(k *work.IdempotencyKey) keyPlace { return keyPlace{k.ExpiresAt, k.Job, k} }

func nameOf(k *work.IdempotencyKey) keyName { return keyName{k.Tenant, k.Key} }

type keyTables struct {
	rows kernel.Table[keyPlace, *work.IdempotencyKey]
}

func newKeyTables() (t keyTables) {
	t.rows = kernel.NewTable[keyPlace, *work.IdempotencyKey](recordKey, func(a, b keyPlace) bool {
		switch {
		case a.expiresAt != b.expiresAt:
			return a.expiresAt < b.expiresAt
		case a.job != b.job:
			return a.job < b.job
		case a.row.Key != b.row.Key:
			return a.row.Key < b.row.Key
		}
		return a.row.Tenant < b.row.Tenant
	})
	return t
}

func (t *keyTables) freeze() keyTables {
	return keyTables{rows: t.rows.Freeze()}
}

func (s *State) PutKey(k *work.IdempotencyKey) {
	s.keys.rows.Put(placeOf(k), k)
	s.work.keys[nameOf(k)] = k
}

func (s *State) DropKey(k *work.IdempotencyKey) {
	s.keys.rows.Delete(placeOf(k))
	delete(s.work.keys, nameOf(k))
}

// FindKey looks a key up; one that has expired but was not swept yet counts as gone.
func (s *State) FindKey(tenant, key string, now int64) *work.IdempotencyKey {
	k := s.work.keys[keyName{tenant, key}]
	if k != nil && k.ExpiresAt <= now {
		s.DropKey(k)
		return nil
	}
	return k
}

// ExpiredKey returns a key whose time is over; nil: there is none.
func (s *State) ExpiredKey(now int64) *work.IdempotencyKey {
	if place, k, ok := s.keys.rows.First(); ok && place.expiresAt <= now {
		return k
	}
	return nil
}
