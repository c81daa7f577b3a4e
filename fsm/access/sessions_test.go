package access

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

func TestCheck_seesDamagedSessions(t *testing.T) {
	for name, damage := range map[string]func(*sessionTables, *tokenTables, *Session){
		"a changed text":     func(_ *sessionTables, _ *tokenTables, s *Session) { s.UserAgent = "another" },
		"another user":       func(_ *sessionTables, _ *tokenTables, s *Session) { s.User = "bob" },
		"another permission": func(_ *sessionTables, _ *tokenTables, s *Session) { s.Permissions = []string{"more"} },
		"a longer life":      func(_ *sessionTables, _ *tokenTables, s *Session) { s.ExpiresAt++ },
		"its token is gone":  func(_ *sessionTables, k *tokenTables, s *Session) { k.rows.Delete(digest(0)) },
		"it is not found":    func(t *sessionTables, _ *tokenTables, s *Session) { t.byID.Delete(idSession{id: s.ID}) },
		"it is not its user's": func(t *sessionTables, _ *tokenTables, s *Session) {
			t.byUser.Delete(userSession{s.Tenant, s.User, s.ID})
		},
		"it is not its token's": func(t *sessionTables, _ *tokenTables, s *Session) { t.byToken.Delete(tokenSession{s.Token, s.ID}) },
		"it is not counted":     func(t *sessionTables, _ *tokenTables, s *Session) { t.count(s.Tenant, -1) },
		"it is counted twice":   func(t *sessionTables, _ *tokenTables, s *Session) { t.count(s.Tenant, 1) },
		"another has a count":   func(t *sessionTables, _ *tokenTables, _ *Session) { t.count("another", 1) },
		"it does not end by time": func(t *sessionTables, _ *tokenTables, s *Session) {
			t.byEnding.Delete(endingSession{s.ExpiresAt, s.ID})
		},
	} {
		tokens, sessions := openTokens(nil).(*tokenTables), openSessions(nil).(*sessionTables)
		of, at := Tokens(), Sessions()
		of.Open = func(*kernel.State) kernel.Part { return tokens }
		at.Open = func(*kernel.State) kernel.Part { return sessions }
		m := kernel.New(kernel.Config[kernel.View, int]{
			Registry: kernel.Register(of, at, Audit()), View: func(v *kernel.View) *kernel.View { return v },
		})
		apply := func(index uint64, c kernel.Command) []any {
			b, err := kernel.Encode(level.Newest, c)
			require.NoError(t, err)
			return m.Apply(index, kernel.Pack(level.Newest, time.Unix(1, 0), [][]byte{b}))
		}
		token := apply(1, PutToken{Digest: digest(0), Tenant: "acme", User: "ann", Permissions: []string{"view"}, Lifetime: 1e9})[0].(TokenResult).Token
		s := apply(2, CreateSession{Digest: digest(1), Tenant: "acme", User: "ann", Token: token.ID})[0].(SessionResult).Session
		require.Empty(t, kernel.Check(m.View()))
		damage(sessions, tokens, s)
		m.StoreConfiguration(3, nil)
		require.NotEmpty(t, kernel.Check(m.View()), name)
	}
}

func digest(n int) string { return fmt.Sprintf("%064x", n) }
