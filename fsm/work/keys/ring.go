package keys

import (
	"iter"
	"strings"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

const record = 50

// How long a key is remembered, in nanoseconds of log time; one that the gateway minted for a request that had none is needed
// only for as long as the gateway retries.
const (
	Lifetime     = 24 * 60 * 60 * 1e9
	AutoLifetime = 15 * 60 * 1e9
	autoPrefix   = "auto:"

	// MaxLength bounds a key, in bytes.
	MaxLength = 255
)

// name identifies a key in the lookup.
type name struct{ tenant, key string }

func nameOf(k *IdempotencyKey) name { return name{k.Tenant, k.Key} }

// place orders keys by when they expire, which is the order in which they came, more or less: keys are random text, and a tree
// in the order of the text would have to copy a node for nearly every key.
type place struct {
	expiresAt int64
	job       ident.Job
	row       *IdempotencyKey
}

func placeOf(k *IdempotencyKey) place { return place{k.ExpiresAt, k.Job, k} }

func placeLess(a, b place) bool {
	switch {
	case a.expiresAt != b.expiresAt:
		return a.expiresAt < b.expiresAt
	case a.job != b.job:
		return a.job < b.job
	case a.row.Key != b.row.Key:
		return a.row.Key < b.row.Key
	}
	return a.row.Tenant < b.row.Tenant
}

// Ring has the keys. Its methods read; what changes it is functions, so that a frozen copy that is embedded in a view offers
// none of it.
type Ring struct {
	rows kernel.Table[place, *IdempotencyKey]
	// named finds a row by its name. Only the applying goroutine does, so a frozen copy has none. It is looked into, never
	// ranged over.
	named map[name]*IdempotencyKey
}

// NewRing returns an empty one.
func NewRing() Ring {
	return Ring{rows: kernel.NewTable[place, *IdempotencyKey](record, placeLess), named: map[name]*IdempotencyKey{}}
}

// Record is the kind of row; at finds the keys of a state.
func Record(at func(*kernel.State) *Ring) kernel.RecordDef {
	return kernel.Rows(record, "idempotency key", func(s *kernel.State) *kernel.Table[place, *IdempotencyKey] { return &at(s).rows },
		func(s *kernel.State, k *IdempotencyKey) error {
			k.Tenant = s.Intern(k.Tenant)
			Put(at(s), k)
			return nil
		})
}

// Freeze returns a copy for a view.
func Freeze(r *Ring) Ring { return Ring{rows: r.rows.Freeze()} }

// Put puts a row in.
func Put(r *Ring, k *IdempotencyKey) {
	r.rows.Put(placeOf(k), k)
	r.named[nameOf(k)] = k
}

// Drop takes a row out.
func Drop(r *Ring, k *IdempotencyKey) {
	r.rows.Delete(placeOf(k))
	delete(r.named, nameOf(k))
}

// find looks a key up; one that has expired but was not swept yet counts as gone.
func find(r *Ring, tenant, key string, now int64) *IdempotencyKey {
	k := r.named[name{tenant, key}]
	if k != nil && k.ExpiresAt <= now {
		Drop(r, k)
		return nil
	}
	return k
}

// Remember binds a key to what it is used for now; minted: the gateway made it.
func Remember(r *Ring, k IdempotencyKey, minted bool, now int64) {
	life := int64(Lifetime)
	if minted || strings.HasPrefix(k.Key, autoPrefix) {
		life = AutoLifetime
	}
	k.ExpiresAt = now + life
	Put(r, &k)
}

// Recall checks a key against its first use: (nil, nil) when it is new.
func Recall(r *Ring, tenant, key string, fingerprint uint64, action work.Action, now int64) (*IdempotencyKey, *kernel.Refusal) {
	if len(key) > MaxLength {
		return nil, kernel.Refuse(kernel.CodeInvalidArgument, reason.KeyTooLong, len(key), MaxLength)
	}
	k := find(r, tenant, key, now)
	if k == nil {
		return nil, nil
	}
	if k.Fingerprint != fingerprint || k.Action != action {
		return nil, kernel.Refuse(kernel.CodeAlreadyExists, reason.KeyOfOtherRequest, key)
	}
	return k, nil
}

// Expired returns a key whose time is over; nil: there is none.
func Expired(r *Ring, now int64) *IdempotencyKey {
	if at, k, ok := r.rows.First(); ok && at.expiresAt <= now {
		return k
	}
	return nil
}

// NextExpiry is when the next key expires; false: there is none.
func (r *Ring) NextExpiry() (int64, bool) {
	at, _, ok := r.rows.First()
	return at.expiresAt, ok
}

// Keys iterates all keys, by when they expire.
func (r *Ring) Keys() iter.Seq[*IdempotencyKey] { return r.rows.Rows() }

// Submitted is the job that was submitted with a key and fingerprint, if that is remembered. It walks all keys.
func (r *Ring) Submitted(tenant, key string, fingerprint uint64, now int64) (ident.Job, bool) {
	for k := range r.Keys() {
		if k.Key == key && k.Tenant == tenant {
			return k.Job, k.Action == 0 && k.Fingerprint == fingerprint && k.ExpiresAt > now
		}
	}
	return 0, false
}

// CheckKeys reports what does not hold of the keys. find finds a job; dropped says that jobs may have been dropped.
func (r *Ring) CheckKeys(find func(ident.Job) (*work.Job, bool), dropped bool, report kernel.Report) {
	seen := map[name]bool{}
	for k := range r.Keys() {
		id := nameOf(k)
		if seen[id] {
			report("I4: the key %q of tenant %q is there twice", k.Key, k.Tenant)
		}
		seen[id] = true
		j, ok := find(k.Job)
		if !ok && !dropped || ok && j.Tenant != k.Tenant {
			report("I4: the key %q of tenant %q stands for %s, which is not there", k.Key, k.Tenant, k.Job)
		}
	}
}
