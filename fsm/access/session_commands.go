package access

import (
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// CreateSession creates a session. The same digest again is the same session.
type CreateSession struct {
	Digest      string   `cbor:"1,keyasint,omitempty"`
	Tenant      string   `cbor:"2,keyasint,omitempty"`
	User        string   `cbor:"3,keyasint,omitempty"`
	Permissions []string `cbor:"4,keyasint,omitempty"`
	Member      []string `cbor:"5,keyasint,omitempty"`
	// Token is the API token that the user signed in with: the session gets its permissions, and ends with it. 0: another way.
	Token ident.Token `cbor:"6,keyasint,omitempty"`
	// Lifetime in nanoseconds; 0 and more than MaxSessionLife: that.
	Lifetime  int64  `cbor:"7,keyasint,omitempty"`
	Address   string `cbor:"8,keyasint,omitempty"`
	UserAgent string `cbor:"9,keyasint,omitempty"`
	Actor     *Actor `cbor:"10,keyasint,omitempty"`
}

// RevokeSession ends a session of a user.
type RevokeSession struct {
	Tenant string        `cbor:"1,keyasint,omitempty"`
	User   string        `cbor:"2,keyasint,omitempty"`
	ID     ident.Session `cbor:"3,keyasint,omitempty"`
	// AnyUser: a session of any user of the tenant.
	AnyUser bool   `cbor:"4,keyasint,omitempty"`
	Actor   *Actor `cbor:"5,keyasint,omitempty"`
}

// SessionResult is the session, or why nothing was done.
type SessionResult struct {
	Session *Session
	Refusal *kernel.Refusal
	// replaced is the session that went to make room.
	replaced *Session
	// known: the session was there before.
	known bool
}

// CommandNumber implements kernel.Command.
func (CreateSession) CommandNumber() uint16 { return 71 }

// AtLevel implements kernel.Leveled.
func (c CreateSession) AtLevel(at level.Level) (kernel.Command, error) {
	return c, SessionGate.Check(at)
}

// CommandNumber implements kernel.Command.
func (RevokeSession) CommandNumber() uint16 { return 72 }

// AtLevel implements kernel.Leveled.
func (c RevokeSession) AtLevel(at level.Level) (kernel.Command, error) {
	return c, SessionGate.Check(at)
}

func createSession(tx *kernel.Tx, c *CreateSession) SessionResult {
	all := sessionsOf(tx.State)
	if old, ok := all.rows.Get(c.Digest); ok {
		if old.Tenant != c.Tenant || old.User != c.User {
			return SessionResult{Refusal: kernel.Refuse(kernel.CodeAlreadyExists, reason.SessionExists)}
		}
		return SessionResult{Session: old, known: true}
	}
	if wrong := c.wrong(); wrong != "" {
		return SessionResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadSession, wrong)}
	}
	life := MaxSessionLife
	if c.Lifetime > 0 {
		life = min(life, c.Lifetime)
	}
	s := &Session{
		Digest: c.Digest, Tenant: c.Tenant, User: c.User, Permissions: slices.Clone(c.Permissions), Member: slices.Clone(c.Member),
		Token: c.Token, CreatedAt: tx.Now(), ExpiresAt: tx.Now() + life,
		Address: printable(c.Address, maxSessionAddress), UserAgent: printable(c.UserAgent, maxSessionAgent),
	}
	if c.Token != 0 {
		token, ok := tokensOf(tx.State).byTokenID(c.Token)
		if !ok || token.Tenant != c.Tenant || token.User != c.User || token.ExpiresAt != 0 && token.ExpiresAt <= tx.Now() {
			return SessionResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.NoToken, c.Token)}
		}
		s.Permissions = slices.Clone(token.Permissions)
		if token.ExpiresAt != 0 {
			s.ExpiresAt = min(s.ExpiresAt, token.ExpiresAt)
		}
	}
	replaced, refusal := all.room(c.Tenant, c.User)
	if refusal != nil {
		return SessionResult{Refusal: refusal}
	}
	id, ok := tx.Mint()
	if !ok {
		return SessionResult{Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyIDs)}
	}
	if replaced != nil {
		all.drop(replaced)
	}
	s.ID = ident.Session(id)
	s.intern(tx.State)
	all.insert(s)
	return SessionResult{Session: s, replaced: replaced}
}

// room returns the session that has to go before a user gets another one: the oldest one of this user. So a user who signs in
// again and again ends no session of another user.
func (t *sessionTables) room(tenant, user string) (oldest *Session, refusal *kernel.Refusal) {
	ofUser, first := 0, ident.Session(0)
	t.byUser.AscendFrom(userSession{tenant: tenant, user: user}, func(k userSession) bool {
		if k.tenant != tenant || k.user != user {
			return false
		}
		if ofUser == 0 {
			first = k.id
		}
		ofUser++
		return true
	})
	switch ofTenant := t.countOf(tenant); {
	case ofUser < MaxSessionsPerUser && ofTenant < MaxSessionsPerTenant:
		return nil, nil
	case ofUser == 0:
		return nil, kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManySessions, ofTenant)
	}
	oldest, _ = t.session(first)
	return oldest, nil
}

// wrong names what is not valid; empty: all is.
func (c *CreateSession) wrong() string {
	switch {
	case len(c.Digest) != tokenDigest:
		return "digest"
	case c.Tenant == "":
		return "tenant"
	case len(c.Permissions) > maxTokenPermissions:
		return "permissions"
	case len(c.Member) > maxSessionMember:
		return "member"
	case c.Lifetime < 0:
		return "lifetime"
	}
	return c.badText()
}

// badText names the first list with a text that is too long or has a NUL.
func (c *CreateSession) badText() string {
	for _, l := range []struct {
		name  string
		texts []string
	}{{"tenant", []string{c.Tenant}}, {"user", []string{c.User}}, {"permissions", c.Permissions}, {"member", c.Member}} {
		for _, text := range l.texts {
			if len(text) > maxMemberText || strings.ContainsRune(text, 0) {
				return l.name
			}
		}
	}
	return ""
}

// maxMemberText bounds each text of a session in bytes: the name of a group has the length of any other name, after "group:".
const maxMemberText = maxTokenText + 8

// printable cuts a text of a browser, and replaces what is not printable ASCII: what counts as printable beyond that differs
// between versions of the language.
func printable(text string, most int) string {
	b := []byte(text[:min(len(text), most)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

func revokeSession(tx *kernel.Tx, c *RevokeSession) SessionResult {
	all := sessionsOf(tx.State)
	s, ok := all.session(c.ID)
	if !ok || s.Tenant != c.Tenant || s.User != c.User && !c.AnyUser {
		return SessionResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoSession, c.ID)}
	}
	all.drop(s)
	return SessionResult{Session: s}
}

func auditCreateSession(tx *kernel.Tx, c *CreateSession, result SessionResult) {
	if result.known {
		return // The same request again.
	}
	if old := result.replaced; old != nil {
		Record(tx, c.Actor, AuditRecord{Action: AuditSessionRevoke, Object: old.ID.String(), Message: reason.New(reason.SessionReplaced)}, nil)
	}
	r := AuditRecord{
		Action: AuditSessionCreate, Object: c.User,
		Message: reason.New(reason.SessionFrom, printable(c.Address, maxSessionAddress), printable(c.UserAgent, maxSessionAgent)),
	}
	if result.Session != nil {
		r.Object = result.Session.ID.String()
	}
	Record(tx, c.Actor, r, result.Refusal)
}

func auditRevokeSession(tx *kernel.Tx, c *RevokeSession, result SessionResult) {
	r := AuditRecord{Action: AuditSessionRevoke, Object: c.ID.String()}
	if result.Session != nil && c.AnyUser {
		r.Message = reason.New(reason.SessionOf, result.Session.User)
	}
	Record(tx, c.Actor, r, result.Refusal)
}
