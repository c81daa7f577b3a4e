package lifecycle

import (
	"strings"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// How long an idempotency key is remembered, in nanoseconds of log time; one that the gateway minted for a request
// that had none is needed only for as long as the gateway retries.
const (
	KeyLifetime     = 24 * 60 * 60 * 1e9
	AutoKeyLifetime = 15 * 60 * 1e9
	autoKeyPrefix   = "auto:"

	// MaxKeyLength bounds an idempotency key, in bytes.
	MaxKeyLength = 255
)

// Remember binds a key to what it was used for.
func (tx *Tx) Remember(tenant, key string, fingerprint uint64, auto bool, job ident.Job, action work.Action) {
	life := int64(KeyLifetime)
	if auto || strings.HasPrefix(key, autoKeyPrefix) {
		life = AutoKeyLifetime
	}
	tx.PutKey(&work.IdempotencyKey{
		Tenant: tenant, Key: key, Fingerprint: fingerprint,
		Job: job, Action: action, ExpiresAt: tx.Now + life,
	})
}

// Recall checks a key against its first use: (nil, nil) when it is new.
func (tx *Tx) Recall(tenant, key string, fingerprint uint64, action work.Action) (*work.IdempotencyKey, *kernel.Refusal) {
	if len(key) > MaxKeyLength {
		return nil, kernel.Refuse(kernel.CodeInvalidArgument, reason.KeyTooLong, len(key), MaxKeyLength)
	}
	k := tx.FindKey(tenant, key, tx.Now)
	if k == nil {
		return nil, nil
	}
	if k.Fingerprint != fingerprint || k.Action != action {
		return nil, kernel.Refuse(kernel.CodeAlreadyExists, reason.KeyOfOtherRequest, key)
	}
	return k, nil
}
