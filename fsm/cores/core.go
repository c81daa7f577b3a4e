package cores

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// Gate is where Cores, executions and decisions begin.
var Gate = level.NewGate(level.Released+1, "hosting programs (Cores)")

const (
	// MaxOfTenant is how many Cores a tenant has.
	MaxOfTenant = 1_000
	// MaxVersions is how many versions of a Core are kept beside those that executions still use.
	MaxVersions = 32
	// MaxSource bounds a program, MaxConfig the rest that is said about a Core, MaxEnvironment its sealed environment; bytes.
	MaxSource      = 512 << 10
	MaxConfig      = 64 << 10
	MaxEnvironment = 64 << 10
)

// Core is a hosted program.
type Core struct {
	ID     ident.Core `cbor:"1,keyasint,omitempty"`
	Tenant string     `cbor:"2,keyasint,omitempty"`
	// User made it.
	User string `cbor:"3,keyasint,omitempty"`
	// Slug is its name within the tenant.
	Slug string `cbor:"4,keyasint,omitempty"`
	Name string `cbor:"5,keyasint,omitempty"`
	// Config has its modes, plugins, limits and metadata; it is opaque here.
	Config []byte `cbor:"6,keyasint,omitempty"`
	// Environment is sealed by the proposer, and opaque here.
	Environment []byte `cbor:"7,keyasint,omitempty"`
	Status      Status `cbor:"8,keyasint,omitempty"`
	// Reason says why it is in Error or Crashed.
	Reason reason.Reason `cbor:"9,keyasint,omitempty"`
	// Version is the version that new executions run; 0: it has no program yet.
	Version   uint32 `cbor:"10,keyasint,omitempty"`
	CreatedAt int64  `cbor:"11,keyasint,omitempty"`
	UpdatedAt int64  `cbor:"12,keyasint,omitempty"`
	StartedAt int64  `cbor:"13,keyasint,omitempty"`
	Revision  uint64 `cbor:"14,keyasint,omitempty"`
	// Key is the idempotency key that it was made with, and Fingerprint tells a repeat from a misuse.
	Key         string `cbor:"15,keyasint,omitempty"`
	Fingerprint uint64 `cbor:"16,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (c *Core) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(c.ID)).Text(c.Tenant).Text(c.User).Text(c.Slug).Text(c.Name).Bytes(c.Config).Bytes(c.Environment)
	f = f.Num(uint64(c.Status)).Text(string(c.Reason)).Num(uint64(c.Version))
	return f.Int(c.CreatedAt).Int(c.UpdatedAt).Int(c.StartedAt).Num(c.Revision).Text(c.Key).Num(c.Fingerprint)
}

// Version is a program of a Core. It never changes.
type Version struct {
	Core   ident.Core `cbor:"1,keyasint,omitempty"`
	Number uint32     `cbor:"2,keyasint,omitempty"`
	// Digest is the SHA-256 of the source.
	Digest string `cbor:"3,keyasint,omitempty"`
	// Source is the program in its intermediate form, opaque here.
	Source    []byte `cbor:"4,keyasint,omitempty"`
	CreatedAt int64  `cbor:"5,keyasint,omitempty"`
	User      string `cbor:"6,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (v *Version) AppendFields(f kernel.Fields) kernel.Fields {
	return f.Num(uint64(v.Core)).Num(uint64(v.Number)).Text(v.Digest).Bytes(v.Source).Int(v.CreatedAt).Text(v.User)
}
