package access

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// View reads the tokens, the sessions and the audit log of a frozen state.
type View struct {
	tokens   *tokenTables
	sessions *sessionTables
	audit    *auditLogs
}

// ViewOf returns the tokens, the sessions and the audit log of a view.
func ViewOf(v *kernel.View) View {
	return View{tokensOf(v.State()), sessionsOf(v.State()), auditOf(v.State())}
}

// TokenCount is how many tokens there are.
func (v View) TokenCount() int { return v.tokens.rows.Len() }

// TokenByDigest returns a token. Whether it has expired is for the caller to see.
func (v View) TokenByDigest(digest string) (*Token, bool) { return v.tokens.rows.Get(digest) }

// TokenByID returns a token by its name.
func (v View) TokenByID(id ident.Token) (*Token, bool) { return v.tokens.byTokenID(id) }

// TokensOf iterates the tokens of a tenant, oldest first.
func (v View) TokensOf(tenant string) iter.Seq[*Token] { return v.tokens.ofTenant(tenant) }

// SessionCount is how many sessions there are.
func (v View) SessionCount() int { return v.sessions.rows.Len() }

// SessionByDigest returns a session. Whether it has expired is for the caller to see.
func (v View) SessionByDigest(digest string) (*Session, bool) { return v.sessions.rows.Get(digest) }

// SessionsOf iterates the sessions of a tenant, by user and age.
func (v View) SessionsOf(tenant string) iter.Seq[*Session] { return v.sessions.ofTenant(tenant) }

// SessionsOfUser iterates the sessions of a user, oldest first.
func (v View) SessionsOfUser(tenant, user string) iter.Seq[*Session] {
	return v.sessions.ofUser(tenant, user)
}
