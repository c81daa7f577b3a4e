// Package flowverbs has what is done to flows, one file a verb.
package flowverbs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// verbs are the commands of this package; each file adds its own.
var verbs kernel.Verbs

// Verbs lists the commands.
func Verbs() []kernel.CommandDef { return verbs }

// Result is the flow after the command, with what the command has put in; or why nothing was done.
type Result struct {
	Flow       *flows.Flow
	ACL        *flows.ACL
	Deployment *flows.Deployment
	Refusal    *kernel.Refusal
	// Same: nothing had to be changed. An earlier command with the same key made the flow, or it has this content already.
	Same bool
}

func refused(r *kernel.Refusal) Result { return Result{Refusal: r} }

// reach returns a flow on which the caller has a right. A caller without any right is told that it is not there.
func reach(tx *kernel.Tx, id ident.Flow, c flows.Caller, need flows.Right) (*flows.Flow, *kernel.Refusal) {
	l := flows.Of(tx.State)
	f, _ := l.Flow(id)
	switch has := l.RightOn(f, c); {
	case has == flows.None:
		return nil, kernel.Refuse(kernel.CodeNotFound, reason.NoFlow, id)
	case has < need:
		return nil, kernel.Refuse(kernel.CodePermissionDenied, reason.FlowNeedsRight, f.Name, need.String(), has.String())
	}
	return f, nil
}

// save puts a flow in. Watchers are told nothing: an event would show the flow to callers without a right on it.
func save(tx *kernel.Tx, f *flows.Flow) {
	f.UpdatedAt, f.Revision = tx.Now(), tx.Index()
	flows.Put(flows.Of(tx.State), f)
}

// makeRoom lets deleted flows go, those that were deleted first, until a tenant has room for one more flow (or none) with so many
// bytes. Nothing goes when that would not be enough.
func makeRoom(tx *kernel.Tx, tenant string, more, bytes int) *kernel.Refusal {
	l := flows.Of(tx.State)
	use := l.FlowUse(tenant)
	use.Flows += more
	use.Bytes += bytes
	enough := func() bool { return use.Flows <= flows.MaxOfTenant && use.Bytes <= flows.MaxBytesOfTenant }
	if enough() {
		return nil
	}
	var deleted, gone []*flows.Flow
	for f := range l.FlowsOf(tenant) {
		if f.DeletedAt != 0 {
			deleted = append(deleted, f)
		}
	}
	slices.SortFunc(deleted, func(a, b *flows.Flow) int {
		return cmp.Or(cmp.Compare(a.DeletedAt, b.DeletedAt), cmp.Compare(a.ID, b.ID))
	})
	for _, f := range deleted {
		if enough() {
			break
		}
		use.Flows--
		for v := range l.FlowVersions(f.ID) {
			use.Bytes -= v.Content.Bytes()
		}
		gone = append(gone, f)
	}
	switch {
	case use.Flows > flows.MaxOfTenant:
		return kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyFlows, int64(flows.MaxOfTenant))
	case !enough():
		return kernel.Refuse(kernel.CodeResourceExhausted, reason.FlowsTooLarge, int64(flows.MaxBytesOfTenant>>20))
	}
	for _, f := range gone {
		flows.Remove(l, f, tx.Now())
	}
	return nil
}

const (
	maxText        = 256
	maxKey         = 512
	maxDescription = 4 << 10
)

// checkTexts says which text is too long for a row.
func checkTexts(most int, texts ...string) error {
	for _, text := range texts {
		if len(text) > most {
			return fmt.Errorf("a text has %d bytes, and at most %d are kept", len(text), most)
		}
	}
	return nil
}

// checkContent says what is wrong with a content, as far as can be seen here.
func checkContent(c flows.Content) error {
	switch {
	case len(c.Packed) == 0 || c.Digest == "" || c.Dropped != 0:
		return fmt.Errorf("it has no content, or its content no digest")
	case c.Size > flows.MaxContent || len(c.Packed) > flows.MaxStored:
		return fmt.Errorf("its content has %d bytes, and at most %d are allowed", c.Size, flows.MaxContent)
	}
	return checkTexts(maxText, c.Digest)
}

func bad(err error) Result {
	return refused(kernel.Refuse(kernel.CodeInvalidArgument, reason.BadFlow, err.Error()))
}

// nameOf is how a flow appears in the audit log.
func nameOf(id ident.Flow, result Result) string {
	if result.Flow != nil {
		return fmt.Sprintf("%s (%s)", id, result.Flow.Name)
	}
	return id.String()
}
