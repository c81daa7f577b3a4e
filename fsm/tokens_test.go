package fsm_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

func digestOf(b byte) string {
	return strings.Repeat(string([]byte{'a' + b%6}), 63) + string([]byte{'0' + b%10})
}

func TestTokens(t *testing.T) {
	w := newWorld(t)
	put := access.PutToken{Digest: digestOf(1), Tenant: "acme", User: "ann", Name: "ci", Permissions: []string{"scaimind:view"}, CreatedBy: "root", Lifetime: int64(time.Hour)}
	made := do[access.TokenResult](w, put)
	require.Nil(t, made.Refusal)
	require.Equal(t, "acme", made.Token.Tenant)
	require.Equal(t, made.Token.CreatedAt+int64(time.Hour), made.Token.ExpiresAt)
	require.Equal(t, made.Token.ID, do[access.TokenResult](w, put).Token.ID, "the same token again is the same token")
	stolen := put
	stolen.Tenant = "evil"
	require.Equal(t, kernel.CodeAlreadyExists, do[access.TokenResult](w, stolen).Refusal.Code)

	found, ok := w.m.View().TokenByDigest(put.Digest)
	require.True(t, ok)
	require.Equal(t, made.Token, found)
	w.do(access.TouchTokens{IDs: []ident.Token{made.Token.ID, 77}})
	found, _ = w.m.View().TokenByDigest(put.Digest)
	require.Positive(t, found.LastUsedAt)

	require.Equal(t, kernel.CodeNotFound, do[access.TokenResult](w, access.RevokeToken{Tenant: "evil", ID: made.Token.ID}).Refusal.Code, "another tenant's is not there")
	require.Nil(t, do[access.TokenResult](w, access.RevokeToken{Tenant: "acme", ID: made.Token.ID}).Refusal)
	_, ok = w.m.View().TokenByDigest(put.Digest)
	require.False(t, ok)
	for range w.m.View().TokensOf("acme") {
		t.Fatal("a token is left")
	}
}

func TestTokens_refused(t *testing.T) {
	good := access.PutToken{Digest: digestOf(2), Tenant: "acme", User: "ann", Permissions: []string{"scaimind:view"}}
	for name, change := range map[string]func(*access.PutToken){
		"a short digest":    func(c *access.PutToken) { c.Digest = "abc" },
		"no tenant":         func(c *access.PutToken) { c.Tenant = "" },
		"no permission":     func(c *access.PutToken) { c.Permissions = nil },
		"many permissions":  func(c *access.PutToken) { c.Permissions = make([]string, 65) },
		"a long name":       func(c *access.PutToken) { c.Name = strings.Repeat("x", 257) },
		"a name with a nul": func(c *access.PutToken) { c.Name = "a\x00b" },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t), good
			change(&c)
			require.Equal(t, kernel.CodeInvalidArgument, do[access.TokenResult](w, c).Refusal.Code)
		})
	}
}

func TestTokens_surviveSnapshots(t *testing.T) {
	w := newWorld(t)
	for i := range byte(5) {
		require.Nil(t, do[access.TokenResult](w, access.PutToken{Digest: digestOf(i), Tenant: "acme", User: "ann", Permissions: []string{"scaimind:view"}}).Refusal)
	}
	var image bytes.Buffer
	snapshot := w.m.Snapshot()
	_, err := snapshot.WriteTo(&image)
	require.NoError(t, err)
	other := fsm.New()
	require.NoError(t, other.Restore(&image))
	require.Equal(t, w.m.View().Hash(), other.View().Hash())
	require.Empty(t, fsm.Check(other.View()))
	_, ok := other.View().TokenByDigest(digestOf(3))
	require.True(t, ok)
}
