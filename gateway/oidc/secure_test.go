package oidc

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys that are fetched without TLS could be replaced by an attacker.
func TestNew_refusesKeysInTheClear(t *testing.T) {
	for config, good := range map[[2]string]bool{
		{"https://login.example", ""}:                               true,
		{"http://127.0.0.1:9", ""}:                                  true,
		{"http://localhost:9", ""}:                                  true,
		{"http://[::1]:9", ""}:                                      true,
		{"login", "https://login.example/keys"}:                     true,
		{"http://login.example", "https://login.example/keys"}:      true,
		{"http://login.example", ""}:                                false,
		{"https://login.example", "http://login.example/keys"}:      false,
		{"https://login.example", "http://127.0.0.1.evil.org/keys"}: false,
		{"https://login.example", "file:///etc/keys"}:               false,
		{"login", ""}:                         false,
		{"https://login.example", "https://"}: false,
		{"https://login.example", "%zz"}:      false,
	} {
		_, err := New(Config{Issuer: config[0], KeysURL: config[1], Audience: "mind"})
		require.Equal(t, good, err == nil, "%v: %v", config, err)
	}
}

// A redirect to a URL without TLS is refused, too.
func TestVerify_keysAreNotFetchedInTheClear(t *testing.T) {
	i := newIssuer(t, "k1")
	token := i.sign(t, "k1", nil)
	var target string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusFound)
	}))
	defer server.Close()
	for name, where := range map[string]string{
		"to the same machine, without TLS": i.URL + "/keys", "to another one, without TLS": "http://login.example/keys", "in circles": server.URL,
	} {
		target = where
		v, err := New(Config{Issuer: i.URL, Audience: "mind", KeysURL: server.URL, Client: server.Client()})
		require.NoError(t, err)
		_, err = v.Verify(t.Context(), token)
		require.ErrorContains(t, err, "redirect", name)
		require.NotErrorIs(t, err, ErrInvalid, "it is not the token's fault")
	}
	target = i.URL + "/keys"
	plain := httptest.NewServer(http.RedirectHandler(target, http.StatusFound))
	defer plain.Close()
	v, err := New(Config{Issuer: i.URL, Audience: "mind", KeysURL: plain.URL, Client: patient})
	require.NoError(t, err)
	_, err = v.Verify(t.Context(), token)
	require.NoError(t, err, "a redirect as such is none")
}
