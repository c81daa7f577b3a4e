package coreverbs

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// PutCore makes a Core, or changes one. Another program makes a new version, which new executions run.
type PutCore struct {
	// ID is the Core to change; 0: a new one.
	ID     ident.Core `cbor:"1,keyasint,omitempty"`
	Tenant string     `cbor:"2,keyasint,omitempty"`
	User   string     `cbor:"3,keyasint,omitempty"`
	Slug   string     `cbor:"4,keyasint,omitempty"`
	Name   string     `cbor:"5,keyasint,omitempty"`
	Config []byte     `cbor:"6,keyasint,omitempty"`
	// Source is the program; empty: it stays as it is. Digest is its SHA-256.
	Source []byte `cbor:"7,keyasint,omitempty"`
	Digest string `cbor:"8,keyasint,omitempty"`
	// Environment is sealed; it replaces that of the Core if SetEnvironment.
	Environment    []byte `cbor:"9,keyasint,omitempty"`
	SetEnvironment bool   `cbor:"10,keyasint,omitempty"`
	// IfRevision is the revision that the change was made from; 0: whatever there is.
	IfRevision uint64        `cbor:"11,keyasint,omitempty"`
	Actor      *access.Actor `cbor:"12,keyasint,omitempty"`
	// Key makes a new Core once; empty: it does not. Fingerprint tells a repeat from a misuse.
	Key         string `cbor:"13,keyasint,omitempty"`
	Fingerprint uint64 `cbor:"14,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PutCore) CommandNumber() uint16 { return 60 }

// AtLevel implements kernel.Leveled.
func (c PutCore) AtLevel(at level.Level) (kernel.Command, error) { return c, cores.Gate.Check(at) }

func init() { verbs.Add(kernel.Define("PutCore", putCore, auditPutCore)) }

func putCore(tx *kernel.Tx, c *PutCore) Result {
	if err := c.validate(); err != nil {
		return Result{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadCore, err.Error())}
	}
	shelf := cores.Of(tx.State)
	row := &cores.Core{Tenant: tx.Intern(c.Tenant), User: c.User, Slug: c.Slug, Status: cores.Created, CreatedAt: tx.Now()}
	if c.ID != 0 {
		old, there := shelf.Core(c.ID)
		if !there || old.Tenant != c.Tenant {
			return Result{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoCore, c.ID)}
		}
		if c.IfRevision != 0 && c.IfRevision != old.Revision {
			return Result{Refusal: kernel.Refuse(kernel.CodeAborted, reason.CoreChanged, old.Slug)}
		}
		kept := *old
		row = &kept
	}
	if other, taken := shelf.CoreOf(c.Tenant, c.Slug); taken && other.ID != c.ID {
		if c.ID == 0 && c.Key != "" && c.Key == other.Key && c.Fingerprint == other.Fingerprint {
			return Result{Core: other, Duplicate: true}
		}
		return Result{Refusal: kernel.Refuse(kernel.CodeAlreadyExists, reason.CoreExists, c.Slug)}
	}
	if c.ID == 0 {
		if r := roomFor(tx, c.Tenant); r != nil {
			return Result{Refusal: r}
		}
		id, ok := tx.Mint()
		if !ok {
			return Result{Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyCores, int64(cores.MaxOfTenant))}
		}
		row.ID, row.Key, row.Fingerprint = ident.Core(id), c.Key, c.Fingerprint
	}
	row.Slug, row.Name, row.Config = c.Slug, c.Name, c.Config
	if c.SetEnvironment {
		row.Environment = c.Environment
	}
	if len(c.Source) > 0 {
		addVersion(tx, row, c)
	}
	save(tx, row)
	return Result{Core: row}
}

// addVersion makes the program a new version, unless it is the one that the Core runs.
func addVersion(tx *kernel.Tx, row *cores.Core, c *PutCore) {
	shelf := cores.Of(tx.State)
	last := uint32(0)
	for v := range shelf.Versions(row.ID) {
		last = max(last, v.Number)
	}
	if now, ok := shelf.CoreVersion(row.ID, row.Version); ok && now.Digest == c.Digest {
		return
	}
	row.Version = last + 1
	cores.PutVersion(shelf, &cores.Version{Core: row.ID, Number: row.Version, Digest: c.Digest, Source: c.Source, CreatedAt: tx.Now(), User: c.User})
	dropVersions(tx, row)
}

// dropVersions drops the oldest versions beyond the bound that no live execution runs.
func dropVersions(tx *kernel.Tx, row *cores.Core) {
	shelf, book := cores.Of(tx.State), executions.Of(tx.State)
	count := 0
	for range shelf.Versions(row.ID) {
		count++
	}
	if count <= cores.MaxVersions {
		return
	}
	used := map[uint32]bool{row.Version: true}
	for id := range book.LiveExecutionsOf(row.ID) {
		e, _ := book.Execution(id)
		used[e.Version] = true
	}
	for v := range shelf.Versions(row.ID) {
		if count > cores.MaxVersions && !used[v.Number] {
			cores.RemoveVersion(shelf, v)
			count--
		}
	}
}

func roomFor(tx *kernel.Tx, tenant string) *kernel.Refusal {
	n := 0
	for range cores.Of(tx.State).CoresOf(tenant, "") {
		n++
	}
	if n >= cores.MaxOfTenant {
		return kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyCores, int64(cores.MaxOfTenant))
	}
	return nil
}

// validate says what is wrong with the command itself, whatever the state is.
func (c *PutCore) validate() error {
	const maxText, maxKey = 256, 512
	if len(c.Key) > maxKey {
		return fmt.Errorf("its key has %d bytes, and at most %d are kept", len(c.Key), maxKey)
	}
	for _, text := range []string{c.Tenant, c.User, c.Slug, c.Name, c.Digest} {
		if len(text) > maxText {
			return fmt.Errorf("a text has %d bytes, and at most %d are kept", len(text), maxText)
		}
	}
	switch {
	case c.Tenant == "" || c.Slug == "":
		return fmt.Errorf("it has no tenant or no slug")
	case len(c.Source) > cores.MaxSource:
		return fmt.Errorf("its program has %d bytes, and at most %d are allowed", len(c.Source), cores.MaxSource)
	case len(c.Source) > 0 && c.Digest == "":
		return fmt.Errorf("its program has no digest")
	case len(c.Config) > cores.MaxConfig:
		return fmt.Errorf("its configuration has %d bytes, and at most %d are allowed", len(c.Config), cores.MaxConfig)
	case len(c.Environment) > cores.MaxEnvironment:
		return fmt.Errorf("its environment has %d bytes, and at most %d are allowed", len(c.Environment), cores.MaxEnvironment)
	}
	return nil
}

var auditCorePut = access.DefineAction(70, "core.put", access.AboutOperation)

func auditPutCore(tx *kernel.Tx, c *PutCore, result Result) {
	if result.Duplicate {
		return
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditCorePut, Object: c.Slug}, result.Refusal)
}
