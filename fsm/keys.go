package fsm

import (
	"strings"

	"github.com/cespare/xxhash/v2"
)

// How long an idempotency key is remembered, in nanoseconds of log time; one that the gateway minted for a request
// that had none is needed only for as long as the gateway retries.
const (
	KeyLifetime     = 24 * 60 * 60 * 1e9
	AutoKeyLifetime = 15 * 60 * 1e9
	autoKeyPrefix   = "auto:"

	// MaxKeyLength bounds an idempotency key, in bytes.
	MaxKeyLength = 255

	recordKey = 50
)

// idempotencyKey remembers what a key was first used for.
type idempotencyKey struct {
	Tenant      string `cbor:"1,keyasint,omitempty"`
	Key         string `cbor:"2,keyasint,omitempty"`
	Fingerprint uint64 `cbor:"3,keyasint,omitempty"`
	Job         JobID  `cbor:"4,keyasint,omitempty"`
	// Action is 0 for a submit.
	Action    Action `cbor:"5,keyasint,omitempty"`
	ExpiresAt int64  `cbor:"6,keyasint,omitempty"`
}

// keyKey orders keys by a hash first, so that a search compares numbers, not text.
type keyKey struct {
	hash uint64
	row  *idempotencyKey
}

type keyTables struct {
	rows   table[keyKey, *idempotencyKey]
	expiry index[*idempotencyKey]
}

var keyDomain = domain{
	name: "keys",
	records: []recordDef{
		defineRecords(recordKey, "idempotency key",
			func(s *state) *table[keyKey, *idempotencyKey] { return &s.keys.rows },
			func(s *state, k *idempotencyKey) error {
				k.Tenant = s.work.name(k.Tenant)
				s.putKey(k)
				return nil
			}),
	},
	open: func(s *state) {
		s.keys.rows = newTable[keyKey, *idempotencyKey](recordKey, func(a, b keyKey) bool {
			if a.hash != b.hash {
				return a.hash < b.hash
			}
			if c := strings.Compare(a.row.Tenant, b.row.Tenant); c != 0 {
				return c < 0
			}
			return a.row.Key < b.row.Key
		})
		s.keys.expiry = newIndex(func(a, b *idempotencyKey) bool {
			if a.ExpiresAt != b.ExpiresAt {
				return a.ExpiresAt < b.ExpiresAt
			}
			if a.Tenant != b.Tenant {
				return a.Tenant < b.Tenant
			}
			return a.Key < b.Key
		})
	},
	freeze: func(s, from *state) {
		s.keys = keyTables{rows: from.keys.rows.freeze(), expiry: from.keys.expiry.freeze()}
	},
	check: checkKeys,
}

func (s *state) putKey(k *idempotencyKey) {
	s.keys.rows.put(keyKey{hash: keyHash(k.Tenant, k.Key), row: k}, k)
	s.keys.expiry.put(k)
}

func (s *state) dropKey(k *idempotencyKey) {
	s.keys.rows.delete(keyKey{hash: keyHash(k.Tenant, k.Key), row: k})
	s.keys.expiry.delete(k)
}

// findKey looks a key up; one that has expired but was not swept yet counts as gone.
func (tx *tx) findKey(tenant, key string) *idempotencyKey {
	probe := &tx.work.probe
	probe.Tenant, probe.Key = tenant, key
	k, ok := tx.keys.rows.get(keyKey{hash: keyHash(tenant, key), row: probe})
	if !ok {
		return nil
	}
	if k.ExpiresAt <= tx.now {
		tx.dropKey(k)
		return nil
	}
	return k
}

// remember binds a key to what it was used for.
func (tx *tx) remember(tenant, key string, fingerprint uint64, auto bool, job JobID, action Action) {
	life := int64(KeyLifetime)
	if auto || strings.HasPrefix(key, autoKeyPrefix) {
		life = AutoKeyLifetime
	}
	tx.putKey(&idempotencyKey{
		Tenant: tenant, Key: key, Fingerprint: fingerprint,
		Job: job, Action: action, ExpiresAt: tx.now + life,
	})
}

// recall checks a key against its first use: (nil, nil) when it is new.
func (tx *tx) recall(tenant, key string, fingerprint uint64, action Action) (*idempotencyKey, *Refusal) {
	if len(key) > MaxKeyLength {
		return nil, refuse(CodeInvalidArgument, "the idempotency key has %d bytes; at most %d are taken", len(key), MaxKeyLength)
	}
	k := tx.findKey(tenant, key)
	if k == nil {
		return nil, nil
	}
	if k.Fingerprint != fingerprint || k.Action != action {
		return nil, refuse(CodeAlreadyExists,
			"the idempotency key %q was used before for another request: use a new key for a new request", key)
	}
	return k, nil
}

func keyHash(tenant, key string) uint64 {
	return xxhash.Sum64String(key) ^ (xxhash.Sum64String(tenant) * 0x9e3779b97f4a7c15)
}
