package flowverbs

import (
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

// MaxArchived is how many versions one command notes.
const MaxArchived = 256

// ArchiveVersions notes that the archive has the contents of versions. The leader proposes it after it has written them. Contents of
// versions that are not the current one of their flow go out of the state.
type ArchiveVersions struct {
	Versions []ArchivedVersion `cbor:"1,keyasint,omitempty"`
}

// ArchivedVersion is a version, with the digest of the content that was written.
type ArchivedVersion struct {
	Flow   ident.Flow `cbor:"1,keyasint,omitempty"`
	Number uint32     `cbor:"2,keyasint,omitempty"`
	Digest string     `cbor:"3,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (ArchiveVersions) CommandNumber() uint16 { return 82 }

// AtLevel implements kernel.Leveled.
func (c ArchiveVersions) AtLevel(at level.Level) (kernel.Command, error) {
	return c, flows.Gate.Check(at)
}

func init() { verbs.Add(kernel.Define("ArchiveVersions", archiveVersions, nil)) }

// ForgetContents notes that the archive has contents no more whose versions went.
type ForgetContents struct {
	Versions []ArchivedVersion `cbor:"1,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (ForgetContents) CommandNumber() uint16 { return 83 }

// AtLevel implements kernel.Leveled.
func (c ForgetContents) AtLevel(at level.Level) (kernel.Command, error) {
	return c, flows.Gate.Check(at)
}

func init() { verbs.Add(kernel.Define("ForgetContents", forgetContents, nil)) }

func forgetContents(tx *kernel.Tx, c *ForgetContents) Result {
	for _, a := range c.Versions[:min(len(c.Versions), MaxArchived)] {
		flows.Forget(flows.Of(tx.State), a.Flow, a.Number)
	}
	return Result{}
}

// archiveVersions passes over versions that went meanwhile, and over those with another content.
func archiveVersions(tx *kernel.Tx, c *ArchiveVersions) Result {
	l := flows.Of(tx.State)
	for _, a := range c.Versions[:min(len(c.Versions), MaxArchived)] {
		if v, ok := l.FlowVersion(a.Flow, a.Number); ok && !v.Archived && v.Content.Digest == a.Digest {
			flows.Archive(l, v)
		}
	}
	return Result{}
}
