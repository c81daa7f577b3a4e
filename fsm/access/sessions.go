package access

import (
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

// SessionGate is where sessions begin.
var SessionGate = level.NewGate(level.Released+1, "sessions of browsers")

const (
	recordSession = 75

	// MaxSessionsPerTenant and MaxSessionsPerUser bound the sessions of a tenant and of one of its users.
	MaxSessionsPerTenant = 10_000
	MaxSessionsPerUser   = 100
	// MaxSessionLife is how long a session lasts at most; nanoseconds.
	MaxSessionLife = int64(12 * 3600e9)
	// maxSessionAddress and maxSessionAgent bound what is kept of where a session was made, in bytes; maxSessionMember bounds
	// the groups and roles of its user.
	maxSessionAddress = 64
	maxSessionAgent   = 256
	maxSessionMember  = 64
	// maxExpiredPerTick bounds the sessions that end in one Tick.
	maxExpiredPerTick = 10_000
)

// Session is the right to call for a user who has signed in with a browser, for some hours. Only the digest of what the browser
// sends is known.
type Session struct {
	ID     ident.Session `cbor:"1,keyasint,omitempty"`
	Digest string        `cbor:"2,keyasint,omitempty"` // SHA-256, hexadecimal
	Tenant string        `cbor:"3,keyasint,omitempty"`
	User   string        `cbor:"4,keyasint,omitempty"`
	// Permissions and Member are those of the user at the time of signing in.
	Permissions []string `cbor:"5,keyasint,omitempty"`
	Member      []string `cbor:"6,keyasint,omitempty"`
	// Token is the API token that the user signed in with; 0: another way.
	Token     ident.Token `cbor:"7,keyasint,omitempty"`
	CreatedAt int64       `cbor:"8,keyasint,omitempty"`
	ExpiresAt int64       `cbor:"9,keyasint,omitempty"`
	// LastUsedAt 0: never; it lags behind, as that of a token.
	LastUsedAt int64 `cbor:"10,keyasint,omitempty"`
	// Address and UserAgent say from where the user signed in: printable ASCII.
	Address   string `cbor:"11,keyasint,omitempty"`
	UserAgent string `cbor:"12,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (s *Session) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(s.ID)).Text(s.Digest).Text(s.Tenant).Text(s.User)
	for _, list := range [][]string{s.Permissions, s.Member} {
		f = f.Num(uint64(len(list)))
		for _, text := range list {
			f = f.Text(text)
		}
	}
	f = f.Num(uint64(s.Token)).Int(s.CreatedAt).Int(s.ExpiresAt).Int(s.LastUsedAt)
	return f.Text(s.Address).Text(s.UserAgent)
}

type (
	idSession struct {
		id     ident.Session
		digest string
	}
	userSession struct {
		tenant, user string
		id           ident.Session
	}
	tokenSession struct {
		token ident.Token
		id    ident.Session
	}
	endingSession struct {
		at int64
		id ident.Session
	}
	sessionCount struct {
		tenant string
		n      int
	}
)

// sessionTables is the part of the state that has the sessions.
type sessionTables struct {
	rows     kernel.Table[string, *Session] // by digest
	byID     kernel.Index[idSession]
	byUser   kernel.Index[userSession]
	byToken  kernel.Index[tokenSession] // those that came from an API token
	byEnding kernel.Index[endingSession]
	// counts has the number of sessions of each tenant that has some: signing in must not cost more the more there are.
	counts kernel.Index[sessionCount]
}

func openSessions(*kernel.State) kernel.Part {
	return &sessionTables{
		rows: kernel.NewTable[string, *Session](recordSession, func(a, b string) bool { return a < b }),
		byID: kernel.NewIndex(func(a, b idSession) bool { return a.id < b.id }),
		byUser: kernel.NewIndex(func(a, b userSession) bool {
			if a.tenant != b.tenant {
				return a.tenant < b.tenant
			}
			return a.user < b.user || a.user == b.user && a.id < b.id
		}),
		byToken: kernel.NewIndex(func(a, b tokenSession) bool {
			return a.token < b.token || a.token == b.token && a.id < b.id
		}),
		byEnding: kernel.NewIndex(func(a, b endingSession) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
		counts:   kernel.NewIndex(func(a, b sessionCount) bool { return a.tenant < b.tenant }),
	}
}

// Freeze implements kernel.Part.
func (t *sessionTables) Freeze(*kernel.State) kernel.Part {
	return &sessionTables{
		rows: t.rows.Freeze(), byID: t.byID.Freeze(), byUser: t.byUser.Freeze(), byToken: t.byToken.Freeze(), byEnding: t.byEnding.Freeze(),
		counts: t.counts.Freeze(),
	}
}

func sessionsOf(s *kernel.State) *sessionTables { return kernel.PartOf[*sessionTables](s) }

// Sessions is all that sessions are to the state.
func Sessions() kernel.Domain {
	return kernel.Domain{
		Name: "sessions",
		Open: openSessions,
		Commands: []kernel.CommandDef{
			kernel.Define("CreateSession", createSession, auditCreateSession),
			kernel.Define("RevokeSession", revokeSession, auditRevokeSession),
		},
		Records: []kernel.RecordDef{
			kernel.Rows(recordSession, "session", func(s *kernel.State) *kernel.Table[string, *Session] { return &sessionsOf(s).rows },
				func(s *kernel.State, row *Session) error {
					row.intern(s)
					sessionsOf(s).insert(row)
					return nil
				}),
		},
		Due: func(s *kernel.State) (int64, bool) {
			first, ok := sessionsOf(s).byEnding.Min()
			return first.at, ok
		},
		Tick:  expireSessions,
		Check: checkSessions,
	}
}

// intern shares the texts that many sessions have.
func (s *Session) intern(state *kernel.State) {
	s.Tenant, s.User, s.UserAgent = state.Intern(s.Tenant), state.Intern(s.User), state.Intern(s.UserAgent)
	for _, list := range [][]string{s.Permissions, s.Member} {
		for i := range list {
			list[i] = state.Intern(list[i])
		}
	}
}

// insert puts a session into the tables, also in the place of an older row of it.
func (t *sessionTables) insert(s *Session) {
	if _, ok := t.rows.Get(s.Digest); !ok {
		t.count(s.Tenant, 1)
	}
	t.rows.Put(s.Digest, s)
	t.byID.Put(idSession{s.ID, s.Digest})
	t.byUser.Put(userSession{s.Tenant, s.User, s.ID})
	if s.Token != 0 {
		t.byToken.Put(tokenSession{s.Token, s.ID})
	}
	t.byEnding.Put(endingSession{s.ExpiresAt, s.ID})
}

func (t *sessionTables) drop(s *Session) {
	t.count(s.Tenant, -1)
	t.rows.Delete(s.Digest)
	t.byID.Delete(idSession{id: s.ID})
	t.byUser.Delete(userSession{s.Tenant, s.User, s.ID})
	t.byToken.Delete(tokenSession{s.Token, s.ID})
	t.byEnding.Delete(endingSession{s.ExpiresAt, s.ID})
}

// countOf returns how many sessions a tenant has.
func (t *sessionTables) countOf(tenant string) int {
	c, _ := t.counts.Get(sessionCount{tenant: tenant})
	return c.n
}

func (t *sessionTables) count(tenant string, more int) {
	c := sessionCount{tenant, t.countOf(tenant) + more}
	if c.n == 0 {
		t.counts.Delete(c)
		return
	}
	t.counts.Put(c)
}

// expireSessions ends the sessions whose time is over.
func expireSessions(tx *kernel.Tx) (more bool) {
	all := sessionsOf(tx.State)
	for range maxExpiredPerTick {
		first, ok := all.byEnding.Min()
		if !ok || first.at > tx.Now() {
			return false
		}
		s, _ := all.session(first.id)
		all.drop(s)
	}
	return true
}

// dropSessionsOf ends the sessions that came from an API token.
func dropSessionsOf(tx *kernel.Tx, token ident.Token) []*Session {
	all := sessionsOf(tx.State)
	gone := slices.Collect(all.ofToken(token))
	for _, s := range gone {
		all.drop(s)
	}
	return gone
}

func (t *sessionTables) session(id ident.Session) (*Session, bool) {
	at, ok := t.byID.Get(idSession{id: id})
	if !ok {
		return nil, false
	}
	return t.rows.Get(at.digest)
}

// ofTenant iterates the sessions of a tenant, by user and age.
func (t *sessionTables) ofTenant(tenant string) iter.Seq[*Session] {
	return t.from(userSession{tenant: tenant}, func(k userSession) bool { return k.tenant == tenant })
}

// ofUser iterates the sessions of a user, oldest first.
func (t *sessionTables) ofUser(tenant, user string) iter.Seq[*Session] {
	return t.from(userSession{tenant: tenant, user: user}, func(k userSession) bool { return k.tenant == tenant && k.user == user })
}

func (t *sessionTables) from(first userSession, among func(userSession) bool) iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		t.byUser.AscendFrom(first, func(k userSession) bool {
			if !among(k) {
				return false
			}
			s, _ := t.session(k.id)
			return yield(s)
		})
	}
}

func (t *sessionTables) ofToken(token ident.Token) iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		t.byToken.AscendFrom(tokenSession{token: token}, func(k tokenSession) bool {
			if k.token != token {
				return false
			}
			s, _ := t.session(k.id)
			return yield(s)
		})
	}
}

func checkSessions(of *kernel.State, report kernel.Report) {
	t := sessionsOf(of)
	n, fromTokens := 0, 0
	for s := range t.rows.Rows() {
		n++
		if byID, ok := t.session(s.ID); !ok || byID != s {
			report("%s is not found by its id", s.ID)
		}
		if !t.byUser.Has(userSession{s.Tenant, s.User, s.ID}) {
			report("I11: %s is not listed for its user", s.ID)
		}
		if !t.byEnding.Has(endingSession{s.ExpiresAt, s.ID}) {
			report("%s is not listed by its end", s.ID)
		}
		if s.ExpiresAt <= s.CreatedAt || s.ExpiresAt-s.CreatedAt > MaxSessionLife {
			report("%s lasts from %d to %d", s.ID, s.CreatedAt, s.ExpiresAt)
		}
		if s.Token == 0 {
			continue
		}
		fromTokens++
		if !t.byToken.Has(tokenSession{s.Token, s.ID}) {
			report("%s is not listed for its token", s.ID)
		}
		switch token, ok := tokensOf(of).byTokenID(s.Token); {
		case !ok:
			report("I23: %s has outlived its token %s", s.ID, s.Token)
		case token.Tenant != s.Tenant || token.User != s.User || !slices.Equal(token.Permissions, s.Permissions):
			report("I23: %s has another user or other permissions than its token %s", s.ID, s.Token)
		case token.ExpiresAt != 0 && token.ExpiresAt < s.ExpiresAt:
			report("I23: %s lasts longer than its token %s", s.ID, s.Token)
		}
	}
	if t.byID.Len() != n || t.byUser.Len() != n || t.byEnding.Len() != n || t.byToken.Len() != fromTokens {
		report("%d sessions, %d listed by id, %d by user, %d by their end, and %d of %d by token",
			n, t.byID.Len(), t.byUser.Len(), t.byEnding.Len(), t.byToken.Len(), fromTokens)
	}
	checkSessionBounds(t, report)
}

func checkSessionBounds(t *sessionTables, report kernel.Report) {
	var last userSession
	ofTenant, ofUser := map[string]int{}, 0
	for k := range t.byUser.All() {
		if k.tenant != last.tenant || k.user != last.user {
			ofUser = 0
		}
		last = k
		if ofTenant[k.tenant]++; ofTenant[k.tenant] == MaxSessionsPerTenant+1 {
			report("%q has more than %d sessions", k.tenant, MaxSessionsPerTenant)
		}
		if ofUser++; ofUser == MaxSessionsPerUser+1 {
			report("%q of %q has more than %d sessions", k.user, k.tenant, MaxSessionsPerUser)
		}
	}
	for c := range t.counts.All() {
		if ofTenant[c.tenant] != c.n {
			report("%q has %d sessions, and %d are counted", c.tenant, ofTenant[c.tenant], c.n)
		}
	}
	if t.counts.Len() != len(ofTenant) {
		report("%d tenants have sessions, and those of %d are counted", len(ofTenant), t.counts.Len())
	}
}
