package fsm_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/flowverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
)

func content(text string) flows.Content {
	sum := sha256.Sum256([]byte(text))
	return flows.Content{Digest: hex.EncodeToString(sum[:]), Size: uint32(min(len(text), flows.MaxContent)), Packed: []byte(text)}
}

var ann = flows.Caller{Tenant: "acme", User: "ann"}

func putFlow(text string) flowverbs.PutFlow {
	name := "triage"
	return flowverbs.PutFlow{Caller: ann, Name: &name, Content: content(text), Version: flows.FirstVersion}
}

// flow makes a flow of ann.
func (w *world) flow(text string) *flows.Flow {
	r := do[flowverbs.Result](w, putFlow(text))
	require.Nil(w.t, r.Refusal)
	return r.Flow
}

func (w *world) saveFlow(id ident.Flow, basedOn, text string) flowverbs.Result {
	return do[flowverbs.Result](w, flowverbs.SaveVersion{Flow: id, Caller: ann, BasedOn: basedOn, Content: content(text)})
}

func (w *world) deployFlow(id ident.Flow, version string) flowverbs.Result {
	return do[flowverbs.Result](w, flowverbs.RecordDeployment{Flow: id, Tenant: "acme", User: "ann", Version: version, Core: 9, CoreVersion: 1})
}

func versionsOf(w *world, id ident.Flow) (names []string) {
	for v := range w.m.View().FlowVersions(id) {
		names = append(names, v.Name)
	}
	return names
}

func TestFlows_aSaveIsANewVersion(t *testing.T) {
	w := newWorld(t)
	f := w.flow("one")
	require.Equal(t, []any{"0.1.0", uint32(1), "ann"}, []any{f.Version, f.Number, f.Owner})
	r := w.saveFlow(f.ID, "0.1.0", "two")
	require.Nil(t, r.Refusal)
	require.Equal(t, "0.1.1", r.Flow.Version)
	require.Equal(t, []string{"0.1.0", "0.1.1"}, versionsOf(w, f.ID))
	first, ok := w.m.View().FlowVersion(f.ID, 1)
	require.True(t, ok)
	require.Equal(t, "one", string(first.Content.Packed))

	name := "sorting"
	r = do[flowverbs.Result](w, flowverbs.PutFlow{ID: f.ID, Caller: ann, Name: &name})
	require.Equal(t, []any{"sorting", "0.1.1"}, []any{r.Flow.Name, r.Flow.Version})
	require.Equal(t, []string{"0.1.0", "0.1.1"}, versionsOf(w, f.ID))
	require.True(t, do[flowverbs.Result](w, flowverbs.PutFlow{ID: f.ID, Caller: ann, Name: &name}).Same)
}

// The save of somebody else is not lost, and a save can be repeated.
func TestFlows_aSaveNamesWhatItIsBasedOn(t *testing.T) {
	w := newWorld(t)
	f := w.flow("one")
	require.Nil(t, w.saveFlow(f.ID, "0.1.0", "two").Refusal)
	for _, stale := range []string{"0.1.0", "", "9.9.9"} {
		refusal := w.saveFlow(f.ID, stale, "three").Refusal
		require.Equal(t, kernel.CodeAborted, refusal.Code)
		require.Equal(t, reason.New(reason.FlowChanged, "triage", stale, "0.1.1"), refusal.Reason)
	}
	again := w.saveFlow(f.ID, "0.1.0", "two")
	require.Nil(t, again.Refusal)
	require.True(t, again.Same)
	require.Equal(t, "0.1.1", again.Flow.Version)
	require.NotNil(t, w.saveFlow(f.ID, "", "two").Refusal, "a save without a base is refused whatever it has")

	name := "sorting"
	both := do[flowverbs.Result](w, flowverbs.SaveVersion{Flow: f.ID, Caller: ann, BasedOn: "0.1.1", Content: content("two"), Name: &name})
	require.Equal(t, []any{"sorting", "0.1.1", false}, []any{both.Flow.Name, both.Flow.Version, both.Same})
	refused := do[flowverbs.Result](w, flowverbs.SaveVersion{Flow: f.ID, Caller: ann, BasedOn: "0.1.0", Content: content("four"), Name: ptr("lost")})
	require.NotNil(t, refused.Refusal)
	now, _ := w.m.View().Flow(f.ID)
	require.Equal(t, "sorting", now.Name)
}

// A change of the name, and a deletion, are not made over another version than the one that they name.
func TestFlows_changesMayNameTheirVersion(t *testing.T) {
	w := newWorld(t)
	f := w.flow("one")
	require.Nil(t, w.saveFlow(f.ID, "0.1.0", "two").Refusal)
	changed := reason.New(reason.FlowChanged, "triage", "0.1.0", "0.1.1")
	rename := flowverbs.PutFlow{ID: f.ID, Caller: ann, Name: ptr("sorting"), BasedOn: "0.1.0"}
	require.Equal(t, changed, do[flowverbs.Result](w, rename).Refusal.Reason)
	require.Equal(t, changed, do[flowverbs.Result](w, flowverbs.DeleteFlow{Flow: f.ID, Caller: ann, BasedOn: "0.1.0"}).Refusal.Reason)
	now, _ := w.m.View().Flow(f.ID)
	require.Equal(t, []any{"triage", int64(0)}, []any{now.Name, now.DeletedAt})
	rename.BasedOn = "0.1.1"
	require.Nil(t, do[flowverbs.Result](w, rename).Refusal)
	require.Nil(t, do[flowverbs.Result](w, flowverbs.DeleteFlow{Flow: f.ID, Caller: ann, BasedOn: "0.1.1"}).Refusal)
}

func ptr[T any](v T) *T { return &v }

// A content goes out of the state when the archive has it and it is not the current one, in either order. It counts as before.
func TestFlows_contentsGoToTheArchive(t *testing.T) {
	w := newWorld(t)
	f := w.flow("one")
	require.Nil(t, w.saveFlow(f.ID, "0.1.0", "two").Refusal)
	at := func(number uint32) *flows.Version {
		v, ok := w.m.View().FlowVersion(f.ID, number)
		require.True(t, ok)
		return v
	}
	archive := func(number uint32, digest string) {
		do[flowverbs.Result](w, flowverbs.ArchiveVersions{Versions: []flowverbs.ArchivedVersion{{Flow: f.ID, Number: 77}, {Flow: f.ID, Number: number, Digest: digest}}})
	}
	use := w.m.View().FlowUse("acme")
	require.Len(t, w.m.View().Unarchived(9), 2)
	archive(1, "another content")
	require.False(t, at(1).Archived, "only what was written is noted")
	archive(1, content("one").Digest)
	archive(2, content("two").Digest)
	require.Equal(t, []any{true, 0, true, "two"}, []any{at(1).Archived, len(at(1).Content.Packed), at(2).Archived, string(at(2).Content.Packed)})
	require.Empty(t, w.m.View().Unarchived(9))
	require.Equal(t, use, w.m.View().FlowUse("acme"))

	require.Nil(t, w.saveFlow(f.ID, "0.1.1", "three").Refusal)
	require.Empty(t, at(2).Content.Packed)
	require.Equal(t, "three", string(at(3).Content.Packed))
	require.Equal(t, 3, len(w.m.View().Unarchived(1))+2)
	require.True(t, w.saveFlow(f.ID, "0.1.2", "three").Same)
	archive(2, content("two").Digest)
	require.Equal(t, uint32(len("two")), at(2).Content.Dropped)

	// With their flow they go from the state at once, and are listed until they are out of the archive.
	require.Nil(t, do[flowverbs.Result](w, flowverbs.DeleteFlow{Flow: f.ID, Caller: ann}).Refusal)
	w.later(time.Duration(flows.KeepDeleted) + time.Second)
	w.tick()
	_, ok := w.m.View().Flow(f.ID)
	require.False(t, ok)
	gone := slices.Collect(w.m.View().GoneContents())
	require.Len(t, gone, 2, "the third was never archived")
	require.Equal(t, []any{f.ID, uint32(1), "0.1.0", "acme"}, []any{gone[0].Flow, gone[0].Number, gone[0].Name, gone[0].Tenant})
	do[flowverbs.Result](w, flowverbs.ForgetContents{Versions: []flowverbs.ArchivedVersion{{Flow: f.ID, Number: 1}}})
	require.Len(t, slices.Collect(w.m.View().GoneContents()), 1)
}

func TestFlows_areMadeOnceForTheirKey(t *testing.T) {
	w := newWorld(t)
	put := func(key string, print uint64) flowverbs.Result {
		c := putFlow("one")
		c.Key, c.Fingerprint = key, print
		return do[flowverbs.Result](w, c)
	}
	first := put("k", 7)
	require.Nil(t, first.Refusal)
	again := put("k", 7)
	require.Equal(t, []any{true, first.Flow.ID}, []any{again.Same, again.Flow.ID})
	require.Equal(t, reason.FlowKeyUsed, put("k", 8).Refusal.Reason.Code())
	require.NotEqual(t, put("", 0).Flow.ID, put("", 0).Flow.ID, "without a key each is another one")
	require.Nil(t, do[flowverbs.Result](w, flowverbs.DeleteFlow{Flow: first.Flow.ID, Caller: ann}).Refusal)
	require.NotEqual(t, first.Flow.ID, put("k", 8).Flow.ID, "the key of a deleted flow is free")
}

// Each command tried with each right.
func TestFlows_takeARight(t *testing.T) {
	for _, has := range []flows.Right{flows.None, flows.ToView, flows.ToEdit, flows.ToDeploy, flows.ToAdmin} {
		for what, need := range map[string]flows.Right{"put": flows.ToEdit, "save": flows.ToEdit, "grant": flows.ToAdmin, "revoke": flows.ToAdmin, "delete": flows.ToAdmin} {
			w := newWorld(t)
			f := w.flow("one")
			other := do[flowverbs.Result](w, flowverbs.PutACL{Flow: f.ID, Caller: ann, PrincipalType: flows.User, Principal: "cid", Right: flows.ToView}).ACL
			if has != flows.None {
				require.Nil(t, do[flowverbs.Result](w, flowverbs.PutACL{Flow: f.ID, Caller: ann, PrincipalType: flows.Group, Principal: "ml", Right: has}).Refusal)
			}
			bob := flows.Caller{Tenant: "acme", User: "bob", Groups: []string{"ops", "ml"}}
			refusal := do[flowverbs.Result](w, map[string]kernel.Command{
				"put":    flowverbs.PutFlow{ID: f.ID, Caller: bob, Name: ptr("other")},
				"save":   flowverbs.SaveVersion{Flow: f.ID, Caller: bob, BasedOn: "0.1.0", Content: content("two")},
				"grant":  flowverbs.PutACL{Flow: f.ID, Caller: bob, PrincipalType: flows.User, Principal: "eve", Right: flows.ToView},
				"revoke": flowverbs.DeleteACL{Flow: f.ID, Caller: bob, ACL: other.ID},
				"delete": flowverbs.DeleteFlow{Flow: f.ID, Caller: bob},
			}[what]).Refusal
			switch {
			case has == flows.None:
				require.Equal(t, reason.New(reason.NoFlow, f.ID), refusal.Reason, what)
			case has < need:
				require.Equal(t, reason.New(reason.FlowNeedsRight, "triage", need.String(), has.String()), refusal.Reason, what)
				require.Equal(t, kernel.CodePermissionDenied, refusal.Code)
			default:
				require.Nil(t, refusal, "%s with %s", what, has)
			}
		}
	}
}

func TestFlows_rights(t *testing.T) {
	w := newWorld(t)
	f := w.flow("one")
	of := func(c flows.Caller) flows.Right {
		now, _ := w.m.View().Flow(f.ID)
		return w.m.View().RightOn(now, c)
	}
	grant := func(kind flows.PrincipalType, who string, right flows.Right) flowverbs.Result {
		return do[flowverbs.Result](w, flowverbs.PutACL{Flow: f.ID, Caller: ann, PrincipalType: kind, Principal: who, Right: right})
	}
	require.Equal(t, flows.ToAdmin, of(ann))
	require.Equal(t, flows.ToAdmin, of(flows.Caller{Tenant: "acme", User: "root", Admin: true}))
	require.Equal(t, flows.None, of(flows.Caller{Tenant: "umbrella", User: "ann", Admin: true}), "another tenant has no right whatever it is")
	require.Equal(t, flows.None, of(flows.Caller{Tenant: "acme"}))
	require.Nil(t, grant(flows.Group, "ml", flows.ToEdit).Refusal)
	bob := grant(flows.User, "bob", flows.ToView)
	require.Equal(t, flows.ToEdit, of(flows.Caller{Tenant: "acme", User: "bob", Groups: []string{"ml"}}), "the highest one counts")
	require.Equal(t, flows.ToView, of(flows.Caller{Tenant: "acme", User: "bob"}))
	require.Equal(t, flows.None, of(flows.Caller{Tenant: "acme", User: "ml", Groups: []string{"bob"}}), "a group is no user")

	require.Equal(t, reason.FlowRightThere, grant(flows.User, "bob", flows.ToAdmin).Refusal.Reason.Code())
	require.Equal(t, reason.FlowOwnerHasAll, grant(flows.User, "ann", flows.ToView).Refusal.Reason.Code())
	require.Equal(t, reason.BadFlow, grant(flows.User, "cid", flows.None).Refusal.Reason.Code())
	require.Equal(t, reason.BadFlow, grant(9, "cid", flows.ToView).Refusal.Reason.Code())
	require.Equal(t, reason.BadFlow, grant(flows.Group, "", flows.ToView).Refusal.Reason.Code())
	revoke := func(id ident.FlowACL) *kernel.Refusal {
		return do[flowverbs.Result](w, flowverbs.DeleteACL{Flow: f.ID, Caller: ann, ACL: id}).Refusal
	}
	change := func(caller flows.Caller, id ident.FlowACL, right flows.Right) flowverbs.Result {
		return do[flowverbs.Result](w, flowverbs.PutACL{Flow: f.ID, Caller: caller, ACL: id, Right: right})
	}
	changed := change(ann, bob.ACL.ID, flows.ToDeploy)
	require.Equal(t, []any{bob.ACL.ID, "bob", flows.ToDeploy}, []any{changed.ACL.ID, changed.ACL.Principal, changed.ACL.Right})
	require.Equal(t, flows.ToDeploy, of(flows.Caller{Tenant: "acme", User: "bob"}))
	require.True(t, change(ann, bob.ACL.ID, flows.ToDeploy).Same)
	require.Equal(t, reason.BadFlow, change(ann, bob.ACL.ID, flows.None).Refusal.Reason.Code())
	require.Equal(t, reason.NoFlowRight, change(ann, 99_999, flows.ToView).Refusal.Reason.Code())
	require.Equal(t, reason.FlowNeedsRight, change(flows.Caller{Tenant: "acme", User: "bob"}, bob.ACL.ID, flows.ToAdmin).Refusal.Reason.Code())
	require.Nil(t, revoke(bob.ACL.ID))
	require.Equal(t, reason.NoFlowRight, revoke(bob.ACL.ID).Reason.Code())
	require.Equal(t, flows.None, of(flows.Caller{Tenant: "acme", User: "bob"}))
	for i := range flows.MaxACLs - 1 {
		require.Nil(t, grant(flows.User, fmt.Sprint("u", i), flows.ToView).Refusal)
	}
	require.Equal(t, reason.New(reason.TooManyFlowRights, int64(flows.MaxACLs)), grant(flows.User, "more", flows.ToView).Refusal.Reason)
}

func TestFlows_keepWhatWasDeployed(t *testing.T) {
	w := newWorld(t)
	f := w.flow("0")
	require.Nil(t, w.deployFlow(f.ID, "0.1.0").Refusal)
	require.Equal(t, reason.NoFlowVersion, w.deployFlow(f.ID, "7.0.0").Refusal.Reason.Code())
	require.Equal(t, reason.NoFlow, do[flowverbs.Result](w, flowverbs.RecordDeployment{Flow: f.ID, Tenant: "umbrella", Version: "0.1.0", Core: 9}).Refusal.Reason.Code())
	at := f.Version
	for i := range flows.MaxVersions + 4 {
		r := w.saveFlow(f.ID, at, fmt.Sprint("text ", i))
		require.Nil(t, r.Refusal)
		at = r.Flow.Version
	}
	names := versionsOf(w, f.ID)
	require.Len(t, names, flows.MaxVersions+1)
	require.Equal(t, []string{"0.1.0", "0.1.5"}, names[:2], "the first was deployed")
	for range flows.MaxDeployments {
		require.Nil(t, w.deployFlow(f.ID, at).Refusal)
	}
	n := 0
	for d := range w.m.View().FlowDeployments(f.ID) {
		require.Equal(t, at, d.Version)
		n++
	}
	require.Equal(t, flows.MaxDeployments, n)
	require.Equal(t, "0.1.5", versionsOf(w, f.ID)[0], "with its deployment the version goes, too")
}

func TestFlows_deletedOnesGoLater(t *testing.T) {
	w := newWorld(t)
	f := w.flow("one")
	require.Nil(t, w.deployFlow(f.ID, "0.1.0").Refusal)
	do[flowverbs.Result](w, flowverbs.PutACL{Flow: f.ID, Caller: ann, PrincipalType: flows.User, Principal: "bob", Right: flows.ToView})
	require.Nil(t, do[flowverbs.Result](w, flowverbs.DeleteFlow{Flow: f.ID, Caller: ann}).Refusal)
	require.Equal(t, reason.NoFlow, w.saveFlow(f.ID, "0.1.0", "two").Refusal.Reason.Code())
	require.Equal(t, reason.NoFlow, do[flowverbs.Result](w, flowverbs.DeleteFlow{Flow: f.ID, Caller: ann}).Refusal.Reason.Code())
	require.Nil(t, w.deployFlow(f.ID, "0.1.0").Refusal, "what was deployed is recorded")
	w.later(30*24*time.Hour - time.Second)
	w.do(clusterverbs.Tick{})
	_, there := w.m.View().Flow(f.ID)
	require.True(t, there)
	w.later(time.Second)
	w.do(clusterverbs.Tick{})
	_, there = w.m.View().Flow(f.ID)
	require.False(t, there)
	require.Empty(t, versionsOf(w, f.ID))
	require.Equal(t, 0, w.m.View().FlowUse("acme").Bytes)
}

// A Tick removes a few of many, and says that there are more.
func TestFlows_goInParts(t *testing.T) {
	w := newWorld(t)
	for i := range 25 {
		f := w.flow(fmt.Sprint(i))
		w.do(flowverbs.DeleteFlow{Flow: f.ID, Caller: ann})
	}
	w.later(31 * 24 * time.Hour)
	var left []int
	for range 3 {
		w.do(clusterverbs.Tick{})
		left = append(left, w.m.View().FlowUse("acme").Flows)
	}
	require.Equal(t, []int{15, 5, 0}, left)
}

func TestFlows_deletedOnesMakeRoom(t *testing.T) {
	w := newWorld(t)
	first := w.flow("first")
	var cmds []kernel.Command
	for i := range flows.MaxOfTenant - 1 {
		cmds = append(cmds, putFlow(fmt.Sprint(i)))
	}
	w.do(cmds...)
	refusal := do[flowverbs.Result](w, putFlow("more")).Refusal
	require.Equal(t, reason.New(reason.TooManyFlows, int64(flows.MaxOfTenant)), refusal.Reason)
	w.do(flowverbs.DeleteFlow{Flow: first.ID, Caller: ann})
	w.flow("more")
	_, kept := w.m.View().Flow(first.ID)
	require.False(t, kept)
}

func TestFlows_bytesAreBounded(t *testing.T) {
	w := newWorld(t)
	big := strings.Repeat("x", flows.MaxContent)
	var last *flows.Flow
	for i := range flows.MaxBytesOfTenant / flows.MaxContent {
		last = w.flow(fmt.Sprintf("%03d", i) + big[3:])
	}
	require.Equal(t, reason.New(reason.FlowsTooLarge, int64(64)), do[flowverbs.Result](w, putFlow("more")).Refusal.Reason)
	require.Equal(t, reason.FlowsTooLarge, w.saveFlow(last.ID, last.Version, "more").Refusal.Reason.Code())
	other := putFlow("more")
	other.Caller = flows.Caller{Tenant: "umbrella", User: "eve"}
	require.Nil(t, do[flowverbs.Result](w, other).Refusal, "other tenants have their own")
	w.do(flowverbs.DeleteFlow{Flow: last.ID, Caller: ann})
	_, kept := w.m.View().Flow(last.ID)
	require.True(t, kept, "it goes when the room is needed")
	w.flow("more")
	_, kept = w.m.View().Flow(last.ID)
	require.False(t, kept)
}

func TestFlows_refuseWhatIsNotValid(t *testing.T) {
	w := newWorld(t)
	for says, change := range map[string]func(c *flowverbs.PutFlow){
		"no tenant or no name":      func(c *flowverbs.PutFlow) { c.Name = nil },
		"its name is empty":         func(c *flowverbs.PutFlow) { c.Name = ptr("") },
		"257 bytes":                 func(c *flowverbs.PutFlow) { c.Name = ptr(strings.Repeat("x", 257)) },
		"4097 bytes":                func(c *flowverbs.PutFlow) { c.Description = ptr(strings.Repeat("x", 4097)) },
		"513 bytes":                 func(c *flowverbs.PutFlow) { c.Key = strings.Repeat("x", 513) },
		"three numbers":             func(c *flowverbs.PutFlow) { c.Version = "one" },
		"no content":                func(c *flowverbs.PutFlow) { c.Content.Packed = nil },
		"or its content no digest":  func(c *flowverbs.PutFlow) { c.Content.Digest = "" },
		"and at most 524288 are al": func(c *flowverbs.PutFlow) { c.Content.Size = flows.MaxContent + 1 },
		"content has 3 bytes":       func(c *flowverbs.PutFlow) { c.Content.Packed = make([]byte, flows.MaxStored+1) },
	} {
		c := putFlow("one")
		change(&c)
		r := do[flowverbs.Result](w, c)
		require.NotNil(t, r.Refusal, says)
		require.Equal(t, reason.BadFlow, r.Refusal.Reason.Code())
		require.Contains(t, r.Refusal.Reason.Params()[0].Text, says)
	}
}

func TestFlows_areAudited(t *testing.T) {
	w := newWorld(t)
	actor := &access.Actor{Tenant: "acme", User: "ann", Request: "r"}
	c := putFlow("one")
	c.Actor = actor
	f := do[flowverbs.Result](w, c).Flow
	save := flowverbs.SaveVersion{Flow: f.ID, Caller: ann, BasedOn: "0.1.0", Content: content("two"), Actor: actor}
	w.do(save)
	w.do(save) // It has changed nothing.
	a := do[flowverbs.Result](w, flowverbs.PutACL{Flow: f.ID, Caller: ann, PrincipalType: flows.User, Principal: "bob", Right: flows.ToView, Actor: actor}).ACL
	w.do(flowverbs.DeleteACL{Flow: f.ID, Caller: ann, ACL: a.ID, Actor: actor})
	w.do(flowverbs.RecordDeployment{Flow: f.ID, Tenant: "acme", User: "ann", Version: "0.1.1", Core: 9, Actor: actor})
	w.do(flowverbs.DeleteFlow{Flow: f.ID, Caller: flows.Caller{Tenant: "acme", User: "bob"}, Actor: actor})
	w.do(flowverbs.DeleteFlow{Flow: f.ID, Caller: ann, Actor: actor})
	var said []string
	for _, of := range []access.AuditAction{92, 93} { // One of each log.
		for r := range w.m.View().AuditRecords(of) {
			said = append(said, r.Action.String()+" "+strings.ReplaceAll(r.Object, f.ID.String(), "F"))
		}
	}
	slices.Sort(said)
	require.Equal(t, []string{
		"flow.delete F", "flow.delete F (triage)", "flow.deploy F (triage) 0.1.1 to core_9", "flow.grant F (triage) to user bob: view", "flow.put F (triage)",
		"flow.revoke F (triage) from user bob: view", "flow.save F (triage)",
	}, said)
}
