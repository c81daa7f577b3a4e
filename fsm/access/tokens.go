package access

import (
	"iter"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

const (
	recordToken = 70

	// MaxTokensPerTenant bounds the tokens of a tenant.
	MaxTokensPerTenant = 10_000
	// tokenDigest is the size of a SHA-256 in hexadecimal.
	tokenDigest = 64
	// maxTokenText bounds each text of a token, in bytes; maxTokenPermissions their number.
	maxTokenText        = 256
	maxTokenPermissions = 64
)

// Token is the right to call for a user of a tenant. Only the digest of what callers send is known.
type Token struct {
	ID          ident.Token `cbor:"1,keyasint,omitempty"`
	Digest      string      `cbor:"2,keyasint,omitempty"` // SHA-256, hexadecimal
	Tenant      string      `cbor:"3,keyasint,omitempty"`
	User        string      `cbor:"4,keyasint,omitempty"`
	Name        string      `cbor:"5,keyasint,omitempty"`
	Permissions []string    `cbor:"6,keyasint,omitempty"`
	CreatedBy   string      `cbor:"7,keyasint,omitempty"`
	CreatedAt   int64       `cbor:"8,keyasint,omitempty"`
	// ExpiresAt 0: never. LastUsedAt 0: never; it lags behind, because a use is not worth a log entry of its own.
	ExpiresAt  int64 `cbor:"9,keyasint,omitempty"`
	LastUsedAt int64 `cbor:"10,keyasint,omitempty"`
}

// PutToken creates a token. The same digest again is the same token.
type PutToken struct {
	Digest      string   `cbor:"1,keyasint,omitempty"`
	Tenant      string   `cbor:"2,keyasint,omitempty"`
	User        string   `cbor:"3,keyasint,omitempty"`
	Name        string   `cbor:"4,keyasint,omitempty"`
	Permissions []string `cbor:"5,keyasint,omitempty"`
	CreatedBy   string   `cbor:"6,keyasint,omitempty"`
	// Lifetime in nanoseconds; 0: until it is revoked.
	Lifetime int64  `cbor:"7,keyasint,omitempty"`
	Actor    *Actor `cbor:"8,keyasint,omitempty"`
}

// RevokeToken takes a token of a tenant away.
type RevokeToken struct {
	Tenant string      `cbor:"1,keyasint,omitempty"`
	ID     ident.Token `cbor:"2,keyasint,omitempty"`
	Actor  *Actor      `cbor:"3,keyasint,omitempty"`
}

// TouchTokens notes that tokens and sessions were used. Those that are gone are passed over.
type TouchTokens struct {
	IDs      []ident.Token   `cbor:"1,keyasint,omitempty"`
	Sessions []ident.Session `cbor:"2,keyasint,omitempty"`
}

// TokenResult is the token, or why nothing was done.
type TokenResult struct {
	Token   *Token
	Refusal *kernel.Refusal
	// ended are the sessions that ended with the token.
	ended []*Session
}

type tenantToken struct {
	tenant string
	id     ident.Token
}

// tokenTables is the part of the state that has the tokens.
type tokenTables struct {
	rows     kernel.Table[string, *Token] // by digest
	byTenant kernel.Index[tenantToken]
	byID     kernel.Index[idToken]
}

type idToken struct {
	id     ident.Token
	digest string
}

func openTokens(*kernel.State) kernel.Part {
	return &tokenTables{
		rows: kernel.NewTable[string, *Token](recordToken, func(a, b string) bool { return a < b }),
		byTenant: kernel.NewIndex(func(a, b tenantToken) bool {
			return a.tenant < b.tenant || a.tenant == b.tenant && a.id < b.id
		}),
		byID: kernel.NewIndex(func(a, b idToken) bool { return a.id < b.id }),
	}
}

// Freeze implements kernel.Part.
func (t *tokenTables) Freeze(*kernel.State) kernel.Part {
	return &tokenTables{rows: t.rows.Freeze(), byTenant: t.byTenant.Freeze(), byID: t.byID.Freeze()}
}

func tokensOf(s *kernel.State) *tokenTables { return kernel.PartOf[*tokenTables](s) }

// Tokens is all that API tokens are to the state.
func Tokens() kernel.Domain {
	return kernel.Domain{
		Name: "tokens",
		Open: openTokens,
		Commands: []kernel.CommandDef{
			kernel.Define("PutToken", putToken, auditPutToken),
			kernel.Define("RevokeToken", revokeToken, auditRevokeToken),
			kernel.Define("TouchTokens", touchTokens, nil),
		},
		Records: []kernel.RecordDef{
			kernel.Rows(recordToken, "token", func(s *kernel.State) *kernel.Table[string, *Token] { return &tokensOf(s).rows },
				func(s *kernel.State, t *Token) error { tokensOf(s).insert(t); return nil }),
		},
		Check: checkTokens,
	}
}

func (s *tokenTables) insert(t *Token) {
	s.rows.Put(t.Digest, t)
	s.byTenant.Put(tenantToken{t.Tenant, t.ID})
	s.byID.Put(idToken{t.ID, t.Digest})
}

func (t *Token) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(t.ID)).Text(t.Digest).Text(t.Tenant).Text(t.User).Text(t.Name).Num(uint64(len(t.Permissions)))
	for _, p := range t.Permissions {
		f = f.Text(p)
	}
	return f.Text(t.CreatedBy).Int(t.CreatedAt).Int(t.ExpiresAt).Int(t.LastUsedAt)
}

// CommandNumber implements kernel.Command.
func (PutToken) CommandNumber() uint16 { return 15 }

func putToken(tx *kernel.Tx, c *PutToken) TokenResult {
	all := tokensOf(tx.State)
	if old, ok := all.rows.Get(c.Digest); ok {
		if old.Tenant != c.Tenant || old.User != c.User {
			return TokenResult{Refusal: kernel.Refuse(kernel.CodeAlreadyExists, reason.TokenExists)}
		}
		return TokenResult{Token: old}
	}
	if r := c.validate(); r != nil {
		return TokenResult{Refusal: r}
	}
	n := 0
	for range all.ofTenant(c.Tenant) {
		n++
	}
	if n >= MaxTokensPerTenant {
		return TokenResult{Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyTokens, n)}
	}
	id, ok := tx.Mint()
	if !ok {
		return TokenResult{Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyIDs)}
	}
	t := &Token{
		ID: ident.Token(id), Digest: c.Digest, Tenant: c.Tenant, User: c.User, Name: c.Name,
		Permissions: slices.Clone(c.Permissions), CreatedBy: c.CreatedBy, CreatedAt: tx.Now(),
	}
	if c.Lifetime > 0 {
		t.ExpiresAt = tx.Now() + c.Lifetime
	}
	all.insert(t)
	return TokenResult{Token: t}
}

func (c *PutToken) validate() *kernel.Refusal {
	switch {
	case len(c.Digest) != tokenDigest:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.BadTokenDigest, tokenDigest)
	case c.Tenant == "":
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.TokenWithoutTenant)
	case len(c.Permissions) == 0 || len(c.Permissions) > maxTokenPermissions:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.BadPermissionCount, maxTokenPermissions)
	}
	for _, text := range append([]string{c.Tenant, c.User, c.Name, c.CreatedBy}, c.Permissions...) {
		if len(text) > maxTokenText || strings.ContainsRune(text, 0) {
			return kernel.Refuse(kernel.CodeInvalidArgument, reason.TokenTextTooLong, maxTokenText)
		}
	}
	return nil
}

// CommandNumber implements kernel.Command.
func (RevokeToken) CommandNumber() uint16 { return 16 }

func revokeToken(tx *kernel.Tx, c *RevokeToken) TokenResult {
	all := tokensOf(tx.State)
	t, ok := all.byTokenID(c.ID)
	if !ok || t.Tenant != c.Tenant {
		return TokenResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoToken, c.ID)}
	}
	all.drop(t)
	return TokenResult{Token: t, ended: dropSessionsOf(tx, t.ID)}
}

func (s *tokenTables) drop(t *Token) {
	s.rows.Delete(t.Digest)
	s.byTenant.Delete(tenantToken{t.Tenant, t.ID})
	s.byID.Delete(idToken{id: t.ID})
}

// CommandNumber implements kernel.Command.
func (TouchTokens) CommandNumber() uint16 { return 17 }

// AtLevel implements kernel.Leveled.
func (c TouchTokens) AtLevel(at level.Level) (kernel.Command, error) {
	if !SessionGate.Open(at) {
		c.Sessions = nil
	}
	return c, nil
}

func touchTokens(tx *kernel.Tx, c *TouchTokens) TokenResult {
	all := tokensOf(tx.State)
	for _, id := range c.IDs {
		old, ok := all.byTokenID(id)
		if !ok || old.LastUsedAt == tx.Now() {
			continue
		}
		t := *old
		t.LastUsedAt = tx.Now()
		all.insert(&t)
	}
	sessions := sessionsOf(tx.State)
	for _, id := range c.Sessions {
		if old, ok := sessions.session(id); ok && old.LastUsedAt != tx.Now() {
			s := *old
			s.LastUsedAt = tx.Now()
			sessions.insert(&s)
		}
	}
	return TokenResult{}
}

func (s *tokenTables) byTokenID(id ident.Token) (*Token, bool) {
	t, ok := s.byID.Get(idToken{id: id})
	if !ok {
		return nil, false
	}
	return s.rows.Get(t.digest)
}

func (s *tokenTables) ofTenant(tenant string) iter.Seq[*Token] {
	return func(yield func(*Token) bool) {
		s.byTenant.AscendFrom(tenantToken{tenant: tenant}, func(k tenantToken) bool {
			if k.tenant != tenant {
				return false
			}
			t, _ := s.byTokenID(k.id)
			return yield(t)
		})
	}
}

func checkTokens(of *kernel.State, report kernel.Report) {
	s := tokensOf(of)
	n := 0
	for t := range s.rows.Rows() {
		n++
		if byID, ok := s.byTokenID(t.ID); !ok || byID != t {
			report("%s is not found by its id", t.ID)
		}
		if !s.byTenant.Has(tenantToken{t.Tenant, t.ID}) {
			report("I11: %s is not listed for its tenant", t.ID)
		}
	}
	if s.byTenant.Len() != n || s.byID.Len() != n {
		report("%d tokens, %d listed by tenant, %d by id", n, s.byTenant.Len(), s.byID.Len())
	}
}

func auditPutToken(tx *kernel.Tx, c *PutToken, result TokenResult) {
	r := AuditRecord{Action: AuditTokenCreate, Object: c.Name, Message: reason.New(reason.TokenFor, c.User, strings.Join(c.Permissions, ", "))}
	if result.Token != nil {
		r.Object = result.Token.ID.String()
	}
	Record(tx, c.Actor, r, result.Refusal)
}

func auditRevokeToken(tx *kernel.Tx, c *RevokeToken, result TokenResult) {
	Record(tx, c.Actor, AuditRecord{Action: AuditTokenRevoke, Object: c.ID.String()}, result.Refusal)
	for _, s := range result.ended {
		Record(tx, c.Actor, AuditRecord{Action: AuditSessionRevoke, Object: s.ID.String(), Message: reason.New(reason.SessionOfToken, c.ID)}, nil)
	}
}
