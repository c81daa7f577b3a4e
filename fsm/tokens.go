package fsm

import (
	"iter"
	"slices"
	"strings"
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
	ID          TokenID  `cbor:"1,keyasint,omitempty"`
	Digest      string   `cbor:"2,keyasint,omitempty"` // SHA-256, hexadecimal
	Tenant      string   `cbor:"3,keyasint,omitempty"`
	User        string   `cbor:"4,keyasint,omitempty"`
	Name        string   `cbor:"5,keyasint,omitempty"`
	Permissions []string `cbor:"6,keyasint,omitempty"`
	CreatedBy   string   `cbor:"7,keyasint,omitempty"`
	CreatedAt   int64    `cbor:"8,keyasint,omitempty"`
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
	Tenant string  `cbor:"1,keyasint,omitempty"`
	ID     TokenID `cbor:"2,keyasint,omitempty"`
	Actor  *Actor  `cbor:"3,keyasint,omitempty"`
}

// TouchTokens notes that tokens were used. Those that are gone are passed over.
type TouchTokens struct {
	IDs []TokenID `cbor:"1,keyasint,omitempty"`
}

// TokenResult is the token, or why nothing was done.
type TokenResult struct {
	Token   *Token
	Refusal *Refusal
}

type tenantToken struct {
	tenant string
	id     TokenID
}

type tokenTables struct {
	rows     table[string, *Token] // by digest
	byTenant index[tenantToken]
	byID     index[idToken]
}

type idToken struct {
	id     TokenID
	digest string
}

var tokenDomain = domain{
	name: "tokens",
	commands: []commandDef{
		defineCommand[PutToken]("PutToken"),
		defineCommand[RevokeToken]("RevokeToken"),
		defineCommand[TouchTokens]("TouchTokens"),
	},
	records: []recordDef{
		defineRecords(recordToken, "token", func(s *state) *table[string, *Token] { return &s.tokens.rows },
			func(s *state, t *Token) error { s.insertToken(t); return nil }),
	},
	open: func(s *state) {
		s.tokens = tokenTables{
			rows: newTable[string, *Token](recordToken, func(a, b string) bool { return a < b }),
			byTenant: newIndex(func(a, b tenantToken) bool {
				return a.tenant < b.tenant || a.tenant == b.tenant && a.id < b.id
			}),
			byID: newIndex(func(a, b idToken) bool { return a.id < b.id }),
		}
	},
	freeze: func(s, from *state) {
		f := &from.tokens
		s.tokens = tokenTables{rows: f.rows.freeze(), byTenant: f.byTenant.freeze(), byID: f.byID.freeze()}
	},
	check: checkTokens,
}

func (s *state) insertToken(t *Token) {
	s.tokens.rows.put(t.Digest, t)
	s.tokens.byTenant.put(tenantToken{t.Tenant, t.ID})
	s.tokens.byID.put(idToken{t.ID, t.Digest})
}

func (t *Token) appendFields(f fields) fields {
	f = f.num(uint64(t.ID)).text(t.Digest).text(t.Tenant).text(t.User).text(t.Name).num(uint64(len(t.Permissions)))
	for _, p := range t.Permissions {
		f = f.text(p)
	}
	return f.text(t.CreatedBy).int(t.CreatedAt).int(t.ExpiresAt).int(t.LastUsedAt)
}

func (PutToken) commandType() uint16 { return 15 }

func (c PutToken) apply(tx *tx) any {
	if old, ok := tx.tokens.rows.get(c.Digest); ok {
		if old.Tenant != c.Tenant || old.User != c.User {
			return TokenResult{Refusal: refuse(CodeAlreadyExists, "this token exists already")}
		}
		return TokenResult{Token: old}
	}
	if r := c.validate(); r != nil {
		return TokenResult{Refusal: r}
	}
	n := 0
	for range tx.TokensOf(c.Tenant) {
		n++
	}
	if n >= MaxTokensPerTenant {
		return TokenResult{Refusal: refuse(CodeResourceExhausted, "the tenant has %d tokens already: revoke some first", n)}
	}
	id, ok := tx.mint()
	if !ok {
		return TokenResult{Refusal: refuse(CodeResourceExhausted, "too many ids in one entry")}
	}
	t := &Token{
		ID: TokenID(id), Digest: c.Digest, Tenant: c.Tenant, User: c.User, Name: c.Name,
		Permissions: slices.Clone(c.Permissions), CreatedBy: c.CreatedBy, CreatedAt: tx.now,
	}
	if c.Lifetime > 0 {
		t.ExpiresAt = tx.now + c.Lifetime
	}
	tx.insertToken(t)
	return TokenResult{Token: t}
}

func (c *PutToken) validate() *Refusal {
	switch {
	case len(c.Digest) != tokenDigest:
		return refuse(CodeInvalidArgument, "the digest of a token has %d hexadecimal digits", tokenDigest)
	case c.Tenant == "":
		return refuse(CodeInvalidArgument, "a token needs a tenant")
	case len(c.Permissions) == 0 || len(c.Permissions) > maxTokenPermissions:
		return refuse(CodeInvalidArgument, "a token needs 1 to %d permissions", maxTokenPermissions)
	}
	for _, text := range append([]string{c.Tenant, c.User, c.Name, c.CreatedBy}, c.Permissions...) {
		if len(text) > maxTokenText || strings.ContainsRune(text, 0) {
			return refuse(CodeInvalidArgument, "texts of a token have at most %d bytes", maxTokenText)
		}
	}
	return nil
}

func (RevokeToken) commandType() uint16 { return 16 }

func (c RevokeToken) apply(tx *tx) any {
	t, ok := tx.TokenByID(c.ID)
	if !ok || t.Tenant != c.Tenant {
		return TokenResult{Refusal: refuse(CodeNotFound, "there is no token %s", c.ID)}
	}
	tx.dropToken(t)
	return TokenResult{Token: t}
}

func (s *state) dropToken(t *Token) {
	s.tokens.rows.delete(t.Digest)
	s.tokens.byTenant.delete(tenantToken{t.Tenant, t.ID})
	s.tokens.byID.delete(idToken{id: t.ID})
}

func (TouchTokens) commandType() uint16 { return 17 }

func (c TouchTokens) apply(tx *tx) any {
	for _, id := range c.IDs {
		old, ok := tx.TokenByID(id)
		if !ok || old.LastUsedAt == tx.now {
			continue
		}
		t := *old
		t.LastUsedAt = tx.now
		tx.insertToken(&t)
	}
	return TokenResult{}
}

// TokenCount is how many tokens there are.
func (s *state) TokenCount() int { return s.tokens.rows.len() }

// TokenByDigest returns a token. Whether it has expired is for the caller to see.
func (s *state) TokenByDigest(digest string) (*Token, bool) { return s.tokens.rows.get(digest) }

// TokenByID returns a token by its name.
func (s *state) TokenByID(id TokenID) (*Token, bool) {
	t, ok := s.tokens.byID.tree.Get(idToken{id: id})
	if !ok {
		return nil, false
	}
	return s.tokens.rows.get(t.digest)
}

// TokensOf iterates the tokens of a tenant, oldest first.
func (s *state) TokensOf(tenant string) iter.Seq[*Token] {
	return func(yield func(*Token) bool) {
		s.tokens.byTenant.tree.AscendGreaterOrEqual(tenantToken{tenant: tenant}, func(k tenantToken) bool {
			if k.tenant != tenant {
				return false
			}
			t, _ := s.TokenByID(k.id)
			return yield(t)
		})
	}
}

func checkTokens(s *state, report func(string, ...any)) {
	n := 0
	for t := range s.tokens.rows.rows() {
		n++
		if byID, ok := s.TokenByID(t.ID); !ok || byID != t {
			report("%s is not found by its id", t.ID)
		}
		if !s.tokens.byTenant.has(tenantToken{t.Tenant, t.ID}) {
			report("I11: %s is not listed for its tenant", t.ID)
		}
	}
	if s.tokens.byTenant.len() != n || s.tokens.byID.len() != n {
		report("%d tokens, %d listed by tenant, %d by id", n, s.tokens.byTenant.len(), s.tokens.byID.len())
	}
}
