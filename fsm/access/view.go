package access

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// View reads the tokens and the audit log of a frozen state.
type View struct {
	tokens *tokenTables
	audit  *auditLogs
}

// ViewOf returns the tokens and the audit log of a view.
func ViewOf(v *kernel.View) View { return View{tokensOf(v.State()), auditOf(v.State())} }

// TokenCount is how many tokens there are.
func (v View) TokenCount() int { return v.tokens.rows.Len() }

// TokenByDigest returns a token. Whether it has expired is for the caller to see.
func (v View) TokenByDigest(digest string) (*Token, bool) { return v.tokens.rows.Get(digest) }

// TokenByID returns a token by its name.
func (v View) TokenByID(id ident.Token) (*Token, bool) { return v.tokens.byTokenID(id) }

// TokensOf iterates the tokens of a tenant, oldest first.
func (v View) TokensOf(tenant string) iter.Seq[*Token] { return v.tokens.ofTenant(tenant) }
