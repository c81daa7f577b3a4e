package flows

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// Right lets a user or a group do something with a flow. Each one has those below it. The names are published.
type Right uint8

// The rights.
const (
	None Right = iota
	ToView
	ToEdit
	ToDeploy
	ToAdmin
)

var rightNames = []string{"none", "view", "edit", "deploy", "admin"}

// String is the right as users see it.
func (r Right) String() string {
	if int(r) < len(rightNames) {
		return rightNames[r]
	}
	return "unknown"
}

// Valid says whether it can be granted.
func (r Right) Valid() bool { return r >= ToView && r <= ToAdmin }

// ParseRight reads what can be granted.
func ParseRight(text string) (Right, bool) {
	i := slices.Index(rightNames, text)
	return Right(max(i, 0)), i > 0
}

// PrincipalType says who has a right.
type PrincipalType uint8

// The types.
const (
	User PrincipalType = iota + 1
	Group
)

// String is the type as users see it.
func (p PrincipalType) String() string {
	switch p {
	case User:
		return "user"
	case Group:
		return "group"
	}
	return "unknown"
}

// ParsePrincipalType reads what String wrote.
func ParsePrincipalType(text string) (PrincipalType, bool) {
	switch text {
	case "user":
		return User, true
	case "group":
		return Group, true
	}
	return 0, false
}

// ACL is a right of a user or a group on a flow. One principal has one at most.
type ACL struct {
	ID            ident.FlowACL `cbor:"1,keyasint,omitempty"`
	Flow          ident.Flow    `cbor:"2,keyasint,omitempty"`
	PrincipalType PrincipalType `cbor:"3,keyasint,omitempty"`
	Principal     string        `cbor:"4,keyasint,omitempty"`
	Right         Right         `cbor:"5,keyasint,omitempty"`
	GrantedBy     string        `cbor:"6,keyasint,omitempty"`
	GrantedAt     int64         `cbor:"7,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (a *ACL) AppendFields(to kernel.Fields) kernel.Fields {
	to = to.Num(uint64(a.ID)).Num(uint64(a.Flow)).Num(uint64(a.PrincipalType)).Text(a.Principal)
	return to.Num(uint64(a.Right)).Text(a.GrantedBy).Int(a.GrantedAt)
}

// Caller is the user who asks, as far as rights on flows go.
type Caller struct {
	Tenant string `cbor:"1,keyasint,omitempty"`
	User   string `cbor:"2,keyasint,omitempty"`
	// Groups are those that the caller's identity provider says.
	Groups []string `cbor:"3,keyasint,omitempty"`
	// Admin has every right on every flow of the tenant.
	Admin bool `cbor:"4,keyasint,omitempty"`
}

// RightOn is the right that the caller has on a flow: None on one of another tenant, and on a deleted one.
func (l *Library) RightOn(f *Flow, c Caller) Right {
	switch {
	case f == nil || f.DeletedAt != 0 || f.Tenant != c.Tenant || c.Tenant == "":
		return None
	case c.Admin || f.Owner == c.User && c.User != "":
		return ToAdmin
	}
	most := None
	for a := range l.FlowACLs(f.ID) {
		if a.PrincipalType == User && a.Principal == c.User || a.PrincipalType == Group && slices.Contains(c.Groups, a.Principal) {
			most = max(most, a.Right)
		}
	}
	return most
}
