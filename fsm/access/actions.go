package access

import (
	"fmt"
	"strings"

	"github.com/mindcoordinator/mind/fsm/ident"
)

// Actor is on whose behalf a command was proposed. A command without one is of the cluster itself, and is not audited.
type Actor struct {
	Tenant string `cbor:"1,keyasint,omitempty"`
	User   string `cbor:"2,keyasint,omitempty"`
	// Token is the API token that the caller came with; 0: another way.
	Token ident.Token `cbor:"3,keyasint,omitempty"`
	// Request is the id of the request, as the gateway's log has it.
	Request string `cbor:"4,keyasint,omitempty"`
}

// AuditAction names an action of a caller. The numbers are in logs and snapshots: append only.
type AuditAction uint8

// Kind says in which of the logs an action is kept: what every user does all day is in one of its own, and so are signing in
// and what strangers do.
type Kind uint8

// The kinds.
const (
	AboutJobs Kind = iota
	AboutOperation
	AboutDenials
	AboutSessions
	kinds
)

type action struct {
	name string
	kind Kind
}

// actions are those that the domains have defined, by number. It is complete before main begins, and does not change.
var actions [256]action

// DefineAction makes an action known: its number, what it is about, a dot, and what is done. Domains call it for their
// package variables.
func DefineAction(number uint8, name string, kind Kind) AuditAction {
	if number == 0 || actions[number].name != "" {
		panic(fmt.Sprintf("fsm: audit action %d is both %s and %s", number, actions[number].name, name))
	}
	actions[number] = action{name, kind}
	return AuditAction(number)
}

// The actions of this package.
var (
	AuditTokenCreate = DefineAction(12, "token.create", AboutOperation)
	AuditTokenRevoke = DefineAction(13, "token.revoke", AboutOperation)
	// AuditAccessDeny are calls that were denied before they reached the state; one record stands for many.
	AuditAccessDeny = DefineAction(20, "access.deny", AboutDenials)
	// Any user may sign in again and again, and must not push out the records of what operators did.
	AuditSessionCreate = DefineAction(86, "session.create", AboutSessions)
	AuditSessionRevoke = DefineAction(87, "session.revoke", AboutSessions)
)

// String is the action as users see it: what it is about, a dot, and what was done.
func (a AuditAction) String() string {
	if name := actions[a].name; name != "" {
		return name
	}
	return "unknown"
}

func (a AuditAction) kind() Kind {
	if actions[a].name == "" {
		return AboutOperation
	}
	return actions[a].kind
}

// AuditActions lists the actions in words.
func AuditActions() []string {
	var names []string
	for _, a := range actions {
		if a.name != "" {
			names = append(names, a.name)
		}
	}
	return names
}

// ParseAuditActions reads an action, or the name of what some actions are about; nil: there is no such.
func ParseAuditActions(text string) []AuditAction {
	var found []AuditAction
	for n, a := range actions {
		about, _, _ := strings.Cut(a.name, ".")
		if a.name != "" && (text == a.name || text == about) {
			found = append(found, AuditAction(n))
		}
	}
	return found
}
