package fsm

import "strings"

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

// keyName is what a key is looked up by.
type keyName struct{ tenant, key string }

// keyPlace orders keys by when they expire, which is the order in which they came, more or less: keys are random text,
// and a tree in the order of the text would have to copy a node for nearly every key. They are looked up in
// working.keys, because only the applying goroutine does.
type keyPlace struct {
	expiresAt int64
	job       JobID
	row       *idempotencyKey
}

func (k *idempotencyKey) place() keyPlace { return keyPlace{k.ExpiresAt, k.Job, k} }

func (k *idempotencyKey) name() keyName { return keyName{k.Tenant, k.Key} }

type keyTables struct {
	rows table[keyPlace, *idempotencyKey]
}

var keyDomain = domain{
	name: "keys",
	records: []recordDef{
		defineRecords(recordKey, "idempotency key",
			func(s *state) *table[keyPlace, *idempotencyKey] { return &s.keys.rows },
			func(s *state, k *idempotencyKey) error {
				k.Tenant = s.work.name(k.Tenant)
				s.putKey(k)
				return nil
			}),
	},
	open: func(s *state) {
		s.keys.rows = newTable[keyPlace, *idempotencyKey](recordKey, func(a, b keyPlace) bool {
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
	},
	freeze: func(s, from *state) { s.keys = keyTables{rows: from.keys.rows.freeze()} },
	check:  checkKeys,
}

func (s *state) putKey(k *idempotencyKey) {
	s.keys.rows.put(k.place(), k)
	s.work.keys[k.name()] = k
}

func (s *state) dropKey(k *idempotencyKey) {
	s.keys.rows.delete(k.place())
	delete(s.work.keys, k.name())
}

// findKey looks a key up; one that has expired but was not swept yet counts as gone.
func (tx *tx) findKey(tenant, key string) *idempotencyKey {
	k := tx.work.keys[keyName{tenant, key}]
	if k != nil && k.ExpiresAt <= tx.now {
		tx.dropKey(k)
		return nil
	}
	return k
}

// SubmittedWith is the job that was submitted with a key and fingerprint, if that is remembered. It walks all keys: it is for
// the rare call that would be refused now but for having been made before.
func (s *state) SubmittedWith(tenant, key string, fingerprint uint64) (JobID, bool) {
	if key == "" {
		return 0, false
	}
	for k := range s.keys.rows.rows() {
		if k.Key == key && k.Tenant == tenant {
			return k.Job, k.Action == 0 && k.Fingerprint == fingerprint && k.ExpiresAt > s.meta.Now
		}
	}
	return 0, false
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
