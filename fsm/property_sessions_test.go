package fsm_test

import (
	"time"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// signing draws what happens to tokens and sessions: they are made, used and revoked, sometimes those of another tenant.
func (g *generator) signing() kernel.Command {
	var tokens []ident.Token
	var sessions []ident.Session
	for _, tenant := range []string{"acme", "umbrella"} {
		for t := range g.w.m.View().TokensOf(tenant) {
			tokens = append(tokens, t.ID)
		}
		for s := range g.w.m.View().SessionsOf(tenant) {
			sessions = append(sessions, s.ID)
		}
	}
	token, session := pick(g, "token", append(tokens, 0, 7)...), pick(g, "session", append(sessions, 7)...)
	tenant, user := pick(g, "tenant", "acme", "acme", "umbrella"), pick(g, "user", "ann", "ann", "bob")
	life := pick(g, "life", 0, int64(time.Minute), int64(24*time.Hour))
	switch g.n("what of tokens", 0, 9) {
	case 0, 1:
		return access.PutToken{Digest: digestOf(byte(g.n("which", 0, 9))), Tenant: tenant, User: user, Permissions: []string{"p"}, Lifetime: life, Actor: g.actor()}
	case 2:
		return access.RevokeToken{Tenant: tenant, ID: token, Actor: g.actor()}
	case 3:
		return access.TouchTokens{IDs: []ident.Token{token}, Sessions: []ident.Session{session}}
	case 4:
		return access.RevokeSession{Tenant: tenant, User: user, ID: session, AnyUser: g.yes("any user"), Actor: g.actor()}
	}
	return access.CreateSession{
		Digest: sessionDigest(g.n("which", 0, 20)), Tenant: tenant, User: user, Token: token, Lifetime: life, Permissions: []string{"q"}, Actor: g.actor(),
	}
}
