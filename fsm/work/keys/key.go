package keys

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// IdempotencyKey remembers what a key was first used for.
type IdempotencyKey struct {
	Tenant      string    `cbor:"1,keyasint,omitempty"`
	Key         string    `cbor:"2,keyasint,omitempty"`
	Fingerprint uint64    `cbor:"3,keyasint,omitempty"`
	Job         ident.Job `cbor:"4,keyasint,omitempty"`
	// Action is 0 for a submit.
	Action    work.Action `cbor:"5,keyasint,omitempty"`
	ExpiresAt int64       `cbor:"6,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (k *IdempotencyKey) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Text(k.Tenant).Text(k.Key).Num(k.Fingerprint).Num(uint64(k.Job)).Num(uint64(k.Action))
	return f.Int(k.ExpiresAt)
}
