package flows

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

// Gate is where flows begin.
var Gate = level.NewGate(level.Released+1, "designing programs (flows)")

const (
	// MaxOfTenant is how many flows a tenant has, with the deleted ones that are still kept.
	MaxOfTenant = 1_000
	// MaxContent bounds the content of a version before it is compressed, MaxStored after; bytes. Content that gzip cannot compress grows a little.
	MaxContent = 512 << 10
	MaxStored  = MaxContent + 4<<10
	// MaxBytesOfTenant bounds the compressed content of all versions of a tenant, bytes.
	MaxBytesOfTenant = 64 << 20
	// MaxVersions is how many versions of a flow are kept, the newest ones, beside those that were deployed.
	MaxVersions = 100
	// MaxDeployments is how many deployments of a flow are kept, the newest ones.
	MaxDeployments = 100
	// MaxACLs is how many users and groups have a right on a flow.
	MaxACLs = 100
	// KeepGone is for how long the archive keeps a content after its version went, nanoseconds: a backup of the state may have it.
	KeepGone = int64(7 * 24 * 3600 * 1e9)
	// MaxGone is how many contents that have to go from the archive are remembered. Those beyond stay there.
	MaxGone = 65_536
	// KeepDeleted is for how long a deleted flow is kept, nanoseconds. It goes earlier when its tenant needs the room.
	KeepDeleted = int64(30 * 24 * 3600 * 1e9)
)

// Flow is a program that people draw: a graph of nodes. Its content is in its versions.
type Flow struct {
	ID     ident.Flow `cbor:"1,keyasint,omitempty"`
	Tenant string     `cbor:"2,keyasint,omitempty"`
	// Owner made it, and has every right on it.
	Owner       string `cbor:"3,keyasint,omitempty"`
	Name        string `cbor:"4,keyasint,omitempty"`
	Description string `cbor:"5,keyasint,omitempty"`
	// Number is that of the current version, Version its name.
	Number    uint32 `cbor:"6,keyasint,omitempty"`
	Version   string `cbor:"7,keyasint,omitempty"`
	CreatedAt int64  `cbor:"8,keyasint,omitempty"`
	UpdatedAt int64  `cbor:"9,keyasint,omitempty"`
	// DeletedAt is when it was deleted; 0: it is there. A deleted one is shown to nobody.
	DeletedAt int64  `cbor:"10,keyasint,omitempty"`
	Revision  uint64 `cbor:"11,keyasint,omitempty"`
	// Key is the idempotency key that it was made with, and Fingerprint tells a repeat from a misuse. A deleted one has none.
	Key         string `cbor:"12,keyasint,omitempty"`
	Fingerprint uint64 `cbor:"13,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (f *Flow) AppendFields(to kernel.Fields) kernel.Fields {
	to = to.Num(uint64(f.ID)).Text(f.Tenant).Text(f.Owner).Text(f.Name).Text(f.Description).Num(uint64(f.Number)).Text(f.Version)
	return to.Int(f.CreatedAt).Int(f.UpdatedAt).Int(f.DeletedAt).Num(f.Revision).Text(f.Key).Num(f.Fingerprint)
}

// Content is the graph of a flow as the proposer has packed it. It is opaque here.
type Content struct {
	// Digest is the SHA-256 of what was compressed, Size its length in bytes.
	Digest string `cbor:"1,keyasint,omitempty"`
	Size   uint32 `cbor:"2,keyasint,omitempty"`
	// Packed is compressed with gzip. It is empty when the archive alone has the content.
	Packed []byte `cbor:"3,keyasint,omitempty"`
	// Dropped is the length of what was packed; 0: it is there.
	Dropped uint32 `cbor:"4,keyasint,omitempty"`
}

// Bytes is the length of the compressed content, wherever it is.
func (c *Content) Bytes() int { return len(c.Packed) + int(c.Dropped) }

// drop leaves the content to the archive.
func (c *Content) drop() {
	c.Dropped += uint32(len(c.Packed))
	c.Packed = nil
}

// Version is one content of a flow. It never changes; the place where its content is does.
type Version struct {
	Flow   ident.Flow `cbor:"1,keyasint,omitempty"`
	Number uint32     `cbor:"2,keyasint,omitempty"`
	// Name is its semantic version.
	Name      string  `cbor:"3,keyasint,omitempty"`
	Content   Content `cbor:"4,keyasint,omitempty"`
	User      string  `cbor:"5,keyasint,omitempty"`
	CreatedAt int64   `cbor:"6,keyasint,omitempty"`
	// Archived says that the archive has the content. The state has it, too, as long as the version is the current one.
	Archived bool `cbor:"7,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (v *Version) AppendFields(to kernel.Fields) kernel.Fields {
	to = to.Num(uint64(v.Flow)).Num(uint64(v.Number)).Text(v.Name)
	to = to.Text(v.Content.Digest).Num(uint64(v.Content.Size)).Bytes(v.Content.Packed)
	to = to.Text(v.User).Int(v.CreatedAt)
	if v.Archived || v.Content.Dropped != 0 {
		to = to.Flag(v.Archived).Num(uint64(v.Content.Dropped))
	}
	return to
}

// Gone is a version that went, and whose content is in the archive.
type Gone struct {
	Flow   ident.Flow `cbor:"1,keyasint,omitempty"`
	Number uint32     `cbor:"2,keyasint,omitempty"`
	Name   string     `cbor:"3,keyasint,omitempty"`
	Tenant string     `cbor:"4,keyasint,omitempty"`
	At     int64      `cbor:"5,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (g *Gone) AppendFields(to kernel.Fields) kernel.Fields {
	return to.Num(uint64(g.Flow)).Num(uint64(g.Number)).Text(g.Name).Text(g.Tenant).Int(g.At)
}

// Deployment says that a version of a flow became a version of a Core.
type Deployment struct {
	ID   ident.Deployment `cbor:"1,keyasint,omitempty"`
	Flow ident.Flow       `cbor:"2,keyasint,omitempty"`
	// Number is that of the version of the flow, Version its name.
	Number      uint32     `cbor:"3,keyasint,omitempty"`
	Version     string     `cbor:"4,keyasint,omitempty"`
	Core        ident.Core `cbor:"5,keyasint,omitempty"`
	CoreVersion uint32     `cbor:"6,keyasint,omitempty"`
	User        string     `cbor:"7,keyasint,omitempty"`
	At          int64      `cbor:"8,keyasint,omitempty"`
	// PublishedSlug is the name under which the Core was published as a model; empty: it was not.
	PublishedSlug string `cbor:"9,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (d *Deployment) AppendFields(to kernel.Fields) kernel.Fields {
	to = to.Num(uint64(d.ID)).Num(uint64(d.Flow)).Num(uint64(d.Number)).Text(d.Version)
	return to.Num(uint64(d.Core)).Num(uint64(d.CoreVersion)).Text(d.User).Int(d.At).Text(d.PublishedSlug)
}
