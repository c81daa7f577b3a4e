package flows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
)

// sample is a library with a flow of two versions, a right and a deployment, and with a deleted flow.
func sample() *Library {
	l := open(nil).(*Library)
	Put(l, &Flow{ID: 1, Tenant: "acme", Owner: "ann", Name: "triage", Number: 2, Version: "0.1.1", Key: "k"})
	Put(l, &Flow{ID: 2, Tenant: "acme", Owner: "ann", Name: "old", Number: 1, Version: "0.1.0", DeletedAt: 5})
	for _, v := range []*Version{aVersion(1, 1, "0.1.0"), aVersion(1, 2, "0.1.1"), aVersion(2, 1, "0.1.0")} {
		if err := PutVersion(l, v); err != nil {
			panic(err)
		}
	}
	PutACL(l, &ACL{ID: 7, Flow: 1, PrincipalType: User, Principal: "bob", Right: ToEdit})
	PutDeployment(l, &Deployment{ID: 8, Flow: 1, Number: 1, Version: "0.1.0", Core: 9, CoreVersion: 1})
	return l
}

func aVersion(flow ident.Flow, number uint32, name string) *Version {
	return &Version{Flow: flow, Number: number, Name: name, Content: Content{Digest: "d", Size: 1, Packed: []byte("x")}}
}

func findings(l *Library) (found []string) {
	l.check(func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) })
	return found
}

// TestCheck_canFail breaks a library in each way that the check looks for.
func TestCheck_canFail(t *testing.T) {
	require.Empty(t, findings(sample()))
	edit := func(change func(f *Flow)) func(*Library) {
		return func(l *Library) {
			old, _ := l.Flow(1)
			f := *old
			change(&f)
			Put(l, &f)
		}
	}
	grant := func(id ident.FlowACL, change func(a *ACL)) func(*Library) {
		return func(l *Library) {
			a := &ACL{ID: id, Flow: 1, PrincipalType: Group, Principal: "ml", Right: ToView}
			change(a)
			PutACL(l, a)
		}
	}
	for says, breaks := range map[string]func(*Library){
		"has the name":                     edit(func(f *Flow) { f.Name = "" }),
		"is not listed for its tenant":     func(l *Library) { l.byTenant.Delete(ofTenant{"acme", 1}) },
		"is not found by its key":          func(l *Library) { l.byKey.Delete(ofKey{tenant: "acme", key: "k"}) },
		"and never goes":                   func(l *Library) { l.deleted.Delete(goesAt{5 + KeepDeleted, 2}) },
		"is at version 3":                  edit(func(f *Flow) { f.Number = 3 }),
		"I24: the flow flow_1 has version": func(l *Library) { l.versions.Put(versionKey{1, 3}, aVersion(1, 3, "0.1.2")) },
		"of content, packed": func(l *Library) {
			v := aVersion(1, 1, "0.1.0")
			v.Content.Digest = ""
			l.versions.Put(versionKey{1, 1}, v)
		},
		"in the archive alone": func(l *Library) {
			v := aVersion(1, 1, "0.1.0")
			v.Content.drop()
			l.versions.Put(versionKey{1, 1}, v)
		},
		"is to go from the archive":       func(l *Library) { PutGone(l, &Gone{Flow: 1, Number: 1, Name: "0.1.0", Tenant: "acme"}) },
		"its list says otherwise":         func(l *Library) { l.unarchived.Delete(versionKey{1, 1}) },
		"version 1 is of the flow flow_3": func(l *Library) { l.versions.Put(versionKey{3, 1}, aVersion(3, 1, "0.1.0")) },
		"was deployed at version 1":       func(l *Library) { l.versions.Delete(versionKey{1, 1}) },
		"are counted as":                  func(l *Library) { l.use("acme", 0, 1) },
		"tenants are counted":             func(l *Library) { l.use("umbrella", 1, 0) },
		"of 1 users and groups":           grant(10, func(a *ACL) { a.PrincipalType, a.Principal = User, "bob" }),
		"is 1 for \"\" of type 2":         grant(10, func(a *ACL) { a.Principal = "" }),
		"is 0 for \"ml\" of type 2":       grant(10, func(a *ACL) { a.Right = None }),
		"is 1 for \"ml\" of type 9":       grant(10, func(a *ACL) { a.PrincipalType = 9 }),
		"is on the flow flow_3":           grant(10, func(a *ACL) { a.Flow = 3 }),
		"is of the flow flow_3":           func(l *Library) { PutDeployment(l, &Deployment{ID: 9, Flow: 3, Core: 1}) },
		"made no Core":                    func(l *Library) { PutDeployment(l, &Deployment{ID: 9, Flow: 1, Number: 1, Version: "0.1.0"}) },
		"versions that are old":           edit(func(f *Flow) { f.Number = MaxVersions + 2 }),
		"has 2 flows with 67108865 bytes": func(l *Library) { l.use("acme", 0, MaxBytesOfTenant-2) },
	} {
		t.Run(says, func(t *testing.T) {
			l := sample()
			breaks(l)
			require.Contains(t, strings.Join(findings(l), "\n"), says)
		})
	}
}

func TestVersions_haveNames(t *testing.T) {
	for name, can := range map[string]bool{
		"0.1.0": true, "1000000.0.0": true, "1000001.0.0": false, "1.0": false, "1.0.0.0": false, "01.0.0": false, "1.0.0-beta": false, "": false,
		"-1.0.0": false, "1.0.x": false,
	} {
		require.Equal(t, can, CanBeFirst(name), name)
	}
	require.Equal(t, "1.2.10", Next("1.2.9"))
	require.Equal(t, "0.1.1", Next(FirstVersion))
}
