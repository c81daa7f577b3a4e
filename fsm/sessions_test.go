package fsm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
)

// sessionDigest is the digest of the nth session of a test.
func sessionDigest(n int) string { return fmt.Sprintf("%064x", n) }

// signIn makes a session of ann of acme.
func (w *world) signIn(n int, change ...func(*access.CreateSession)) access.SessionResult {
	c := access.CreateSession{
		Digest: sessionDigest(n), Tenant: "acme", User: "ann", Permissions: []string{"scaimind:view"}, Member: []string{"group:g1"},
		Address: "10.0.0.1", UserAgent: "Firefox",
	}
	for _, f := range change {
		f(&c)
	}
	return do[access.SessionResult](w, c)
}

// signsIn goes on with a session that came from a token, and one that did not.
func (w *world) signsIn() {
	made := do[access.TokenResult](w, access.PutToken{Digest: digestOf(8), Tenant: "acme", User: "ann", Permissions: []string{"scaimind:manage"}})
	require.Nil(w.t, made.Refusal)
	require.Nil(w.t, w.signIn(1, func(c *access.CreateSession) { c.Token = made.Token.ID }).Refusal)
	require.Nil(w.t, w.signIn(2).Refusal)
}

func (w *world) sessions(tenant string) (ids []ident.Session) {
	for s := range w.m.View().SessionsOf(tenant) {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestSessions(t *testing.T) {
	w := newWorld(t)
	made := w.signIn(1).Session
	require.Equal(t, made.CreatedAt+12*int64(time.Hour), made.ExpiresAt)
	require.Equal(t, []string{"group:g1"}, made.Member)
	require.Equal(t, made.ID, w.signIn(1).Session.ID, "the same request again is the same session")
	require.Equal(t, kernel.CodeAlreadyExists, w.signIn(1, func(c *access.CreateSession) { c.Tenant = "evil" }).Refusal.Code)
	short := w.signIn(2, func(c *access.CreateSession) { c.Lifetime = int64(time.Minute) }).Session
	require.Equal(t, short.CreatedAt+int64(time.Minute), short.ExpiresAt)
	long := w.signIn(3, func(c *access.CreateSession) { c.Lifetime = int64(48 * time.Hour) }).Session
	require.Equal(t, long.CreatedAt+12*int64(time.Hour), long.ExpiresAt)

	found, ok := w.m.View().SessionByDigest(sessionDigest(1))
	require.True(t, ok)
	require.Equal(t, made, found)
	w.later(time.Second)
	w.do(access.TouchTokens{Sessions: []ident.Session{made.ID, 77}})
	found, _ = w.m.View().SessionByDigest(sessionDigest(1))
	require.Equal(t, w.now, found.LastUsedAt)
	require.Empty(t, fsm.Check(w.m.View()))

	revoke := func(c access.RevokeSession) *kernel.Refusal { return do[access.SessionResult](w, c).Refusal }
	for _, c := range []access.RevokeSession{
		{Tenant: "evil", User: "ann", ID: made.ID},
		{Tenant: "evil", ID: made.ID, AnyUser: true},
		{Tenant: "acme", User: "bob", ID: made.ID},
		{Tenant: "acme", ID: made.ID},
		{Tenant: "acme", User: "ann", ID: 77},
	} {
		require.Equal(t, kernel.CodeNotFound, revoke(c).Code, "%+v", c)
	}
	require.Nil(t, revoke(access.RevokeSession{Tenant: "acme", User: "ann", ID: made.ID}))
	_, ok = w.m.View().SessionByDigest(sessionDigest(1))
	require.False(t, ok)
	require.Nil(t, revoke(access.RevokeSession{Tenant: "acme", User: "bob", ID: long.ID, AnyUser: true}))
	require.Equal(t, []ident.Session{short.ID}, w.sessions("acme"))
}

func TestSessions_endByTime(t *testing.T) {
	w := newWorld(t)
	short := w.signIn(1, func(c *access.CreateSession) { c.Lifetime = int64(time.Minute) }).Session
	long := w.signIn(2).Session
	due, ok := w.m.View().NextDue()
	require.True(t, ok)
	require.Equal(t, short.ExpiresAt, due)
	w.do(clusterverbs.Tick{})
	require.Len(t, w.sessions("acme"), 2)
	w.later(time.Minute)
	w.do(clusterverbs.Tick{})
	require.Equal(t, []ident.Session{long.ID}, w.sessions("acme"))
	w.later(12 * time.Hour)
	w.do(clusterverbs.Tick{})
	require.Empty(t, w.sessions("acme"))
}

// A session that came from a token has its user and permissions, does not last longer, and ends in the entry that revokes it.
func TestSessions_endWithTheirToken(t *testing.T) {
	w := newWorld(t)
	who := &access.Actor{Tenant: "acme", User: "root"}
	token := func(b byte, life time.Duration) ident.Token {
		return do[access.TokenResult](w, access.PutToken{Digest: digestOf(b), Tenant: "acme", User: "ann", Permissions: []string{"scaimind:manage"}, Lifetime: int64(life)}).Token.ID
	}
	first, second := token(1, time.Hour), token(2, 0)
	from := func(id ident.Token) func(*access.CreateSession) {
		return func(c *access.CreateSession) { c.Token, c.Permissions = id, []string{"mind:operator"} }
	}
	a := w.signIn(1, from(first)).Session
	require.Equal(t, []string{"scaimind:manage"}, a.Permissions, "it has what the token has, whatever was asked for")
	require.Equal(t, a.CreatedAt+int64(time.Hour), a.ExpiresAt)
	b, c := w.signIn(2, from(second)).Session, w.signIn(3).Session
	for name, change := range map[string]func(*access.CreateSession){
		"a token that is not there": from(99),
		"another user":              func(c *access.CreateSession) { c.Token, c.User = second, "bob" },
		"another tenant":            func(c *access.CreateSession) { c.Token, c.Tenant = second, "evil" },
	} {
		require.Equal(t, kernel.CodeFailedPrecondition, w.signIn(9, change).Refusal.Code, name)
	}
	before := len(w.log)
	require.Nil(t, do[access.TokenResult](w, access.RevokeToken{Tenant: "acme", ID: second, Actor: who}).Refusal)
	require.Len(t, w.log, before+1)
	require.Equal(t, []ident.Session{a.ID, c.ID}, w.sessions("acme"))
	require.Equal(t, []string{
		"acme/root token.revoke " + second.String() + " 0", "acme/root session.revoke " + b.ID.String() + " 0: its token " + second.String() + " was revoked",
	}, told(w.m.View()))
	w.later(2 * time.Hour)
	require.Equal(t, kernel.CodeFailedPrecondition, w.signIn(9, from(first)).Refusal.Code, "the token has expired")
}

func TestSessions_refused(t *testing.T) {
	for name, change := range map[string]func(*access.CreateSession){
		"a short digest":      func(c *access.CreateSession) { c.Digest = "abc" },
		"no tenant":           func(c *access.CreateSession) { c.Tenant = "" },
		"many permissions":    func(c *access.CreateSession) { c.Permissions = make([]string, 65) },
		"many groups":         func(c *access.CreateSession) { c.Member = make([]string, 65) },
		"a long group":        func(c *access.CreateSession) { c.Member = []string{strings.Repeat("x", 300)} },
		"a user with a nul":   func(c *access.CreateSession) { c.User = "a\x00b" },
		"a life before birth": func(c *access.CreateSession) { c.Lifetime = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, kernel.CodeInvalidArgument, newWorld(t).signIn(1, change).Refusal.Code)
		})
	}
	made := newWorld(t).signIn(1, func(c *access.CreateSession) {
		c.Address, c.UserAgent = strings.Repeat("1", 100), "a\nb\x7fü"+strings.Repeat("x", 300)
	}).Session
	require.Len(t, made.Address, 64)
	require.Len(t, made.UserAgent, 256)
	require.True(t, strings.HasPrefix(made.UserAgent, "a?b???xxx"), made.UserAgent)
}

// A user who signs in again and again ends the oldest own session, and no other user's; a tenant has a bound, too.
func TestSessions_areBounded(t *testing.T) {
	w := newWorld(t)
	who := &access.Actor{Tenant: "acme", User: "ann"}
	other := w.signIn(0, func(c *access.CreateSession) { c.User = "bob" }).Session
	var made []ident.Session
	for n := range access.MaxSessionsPerUser + 2 {
		made = append(made, w.signIn(n+1, func(c *access.CreateSession) { c.Actor = who }).Session.ID)
	}
	require.Equal(t, append(made[2:], other.ID), w.sessions("acme"))
	require.Equal(t, 2, len(slices.DeleteFunc(told(w.m.View()), func(line string) bool {
		return !strings.HasSuffix(line, "a newer session of the same user took its place")
	})))

	n := 1000
	for len(w.sessions("acme")) < access.MaxSessionsPerTenant {
		var cmds []kernel.Command
		for range 500 {
			n++
			cmds = append(cmds, access.CreateSession{Digest: sessionDigest(n), Tenant: "acme", User: fmt.Sprint("u", n/50)})
		}
		w.do(cmds...)
	}
	require.Len(t, w.sessions("acme"), access.MaxSessionsPerTenant)
	full := w.signIn(1, func(c *access.CreateSession) { c.Digest, c.User = sessionDigest(100_000), "new" })
	require.Equal(t, kernel.CodeResourceExhausted, full.Refusal.Code)
	require.Nil(t, w.signIn(100_001).Refusal, "who has one changes it for another")
	require.Len(t, w.sessions("acme"), access.MaxSessionsPerTenant)
	require.Nil(t, w.signIn(100_002, func(c *access.CreateSession) { c.Tenant = "other" }).Refusal)
	require.Empty(t, fsm.Check(w.m.View()))
}

// A record says from where a user signed in, once, also when the request was repeated. Many of them push out none of operators.
func TestSessions_areAudited(t *testing.T) {
	w := newWorld(t)
	w.do(clusterverbs.Configure{KeepAudit: 3})
	who := &access.Actor{Tenant: "acme", User: "ann"}
	w.do(access.PutToken{Digest: digestOf(1), Tenant: "acme", User: "ann", Permissions: []string{"p"}, Actor: who})
	signed := func(c *access.CreateSession) { c.Actor = who }
	made := w.signIn(1, signed).Session
	w.signIn(1, signed)
	w.do(access.RevokeSession{Tenant: "acme", User: "ann", ID: made.ID, Actor: who})
	w.do(access.RevokeSession{Tenant: "acme", User: "ann", ID: made.ID, Actor: who})
	id := made.ID.String()
	require.Equal(t, []string{
		"acme/ann session.create " + id + " 0: from 10.0.0.1: Firefox", "acme/ann session.revoke " + id + " 0",
		"acme/ann session.revoke " + id + " 5: there is no session " + id,
	}, told(w.m.View())[1:])
	for n := range 9 {
		w.signIn(n+10, signed)
	}
	require.Contains(t, told(w.m.View())[0], "token.create")
	require.Len(t, told(w.m.View()), 4)
}

func TestSessions_needTheirLevel(t *testing.T) {
	_, err := kernel.Encode(level.Released, access.CreateSession{})
	require.ErrorContains(t, err, "sessions of browsers needs feature level")
	_, err = kernel.Encode(level.Released, access.RevokeSession{})
	require.ErrorContains(t, err, "sessions of browsers needs feature level")
	below, err := kernel.Encode(level.Released, access.TouchTokens{IDs: []ident.Token{1}, Sessions: []ident.Session{2}})
	require.NoError(t, err)
	without, err := kernel.Encode(level.Released, access.TouchTokens{IDs: []ident.Token{1}})
	require.NoError(t, err)
	require.Equal(t, without, below)
}
