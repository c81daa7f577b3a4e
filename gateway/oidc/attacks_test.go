package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

// keyServer serves a key set without changes.
func keyServer(t *testing.T, keys ...any) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"keys": keys})
	require.NoError(t, err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	t.Cleanup(s.Close)
	return s.URL
}

func rsaKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return key
}

const theIssuer = "https://issuer.example"

func payload() map[string]any {
	return map[string]any{"iss": theIssuer, "aud": "mind", "sub": "usr_1", "tenant_id": "tnt_a", "exp": time.Now().Add(time.Hour).Unix()}
}

// A key is used only for the purpose that the issuer has set, and a token without a matching key id gets no key.
func TestVerify_keysAreNotConfused(t *testing.T) {
	first, second := rsaKey(t), rsaKey(t)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	public := func(key *rsa.PrivateKey, id, algorithm, use string) jose.JSONWebKey {
		return jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: algorithm, Use: use}
	}
	sign := func(key any, id string, algorithm jose.SignatureAlgorithm) string {
		return signed(t, jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, payload())
	}
	octets := map[string]any{"kty": "oct", "kid": "k1", "k": base64.RawURLEncoding.EncodeToString(make([]byte, 32))}
	for name, c := range map[string]struct {
		keys  []any
		token string
		good  bool
	}{
		"the only key, and no id":            {[]any{public(first, "k1", "RS256", "sig")}, sign(first, "", jose.RS256), true},
		"a key without alg and use":          {[]any{public(first, "k1", "", "")}, sign(first, "k1", jose.RS256), true},
		"no id, two keys that fit":           {[]any{public(first, "k1", "RS256", "sig"), public(second, "k2", "RS256", "sig")}, sign(first, "", jose.RS256), false},
		"the id of another key":              {[]any{public(first, "k1", "RS256", "sig"), public(second, "k2", "RS256", "sig")}, sign(first, "k2", jose.RS256), false},
		"two keys of one id":                 {[]any{public(first, "k1", "RS256", "sig"), public(second, "k1", "RS256", "sig")}, sign(first, "k1", jose.RS256), false},
		"a key for encryption":               {[]any{public(first, "k1", "RS256", "enc")}, sign(first, "k1", jose.RS256), false},
		"a key for another algorithm":        {[]any{public(first, "k1", "RS512", "sig")}, sign(first, "k1", jose.RS256), false},
		"an elliptic key under an RSA name":  {[]any{jose.JSONWebKey{Key: ec.Public(), KeyID: "k1"}}, sign(first, "k1", jose.RS256), false},
		"an algorithm that is not accepted":  {[]any{jose.JSONWebKey{Key: ec.Public(), KeyID: "k1", Algorithm: "ES256"}}, sign(ec, "k1", jose.ES256), false},
		"a shared secret in the key set":     {[]any{octets}, sign(make([]byte, 32), "k1", jose.HS256), false},
		"a private key in the key set":       {[]any{jose.JSONWebKey{Key: first, KeyID: "k1", Algorithm: "RS256"}}, sign(first, "k1", jose.RS256), false},
		"an id with another one's path":      {[]any{public(first, "k1", "RS256", "sig")}, sign(first, "../k1", jose.RS256), false},
		"an id that is as long as a book":    {[]any{public(first, "k1", "RS256", "sig")}, sign(first, strings.Repeat("k", 50_000), jose.RS256), false},
		"an id that differs by a small case": {[]any{public(first, "K1", "RS256", "sig")}, sign(first, "k1", jose.RS256), false},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := New(Config{Issuer: theIssuer, Audience: "mind", Client: patient, KeysURL: keyServer(t, c.keys...)})
			require.NoError(t, err)
			_, err = v.Verify(context.Background(), c.token)
			if c.good {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
}

// Keys, and URLs of keys, in the header of a token are ignored, and not fetched.
func TestVerify_keysThatTokensBringAreNotUsed(t *testing.T) {
	mine, theirs := rsaKey(t), rsaKey(t)
	var asked atomic.Int32
	attacker := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer attacker.Close()
	v, err := New(Config{Issuer: theIssuer, Audience: "mind", Client: patient, KeysURL: keyServer(t, jose.JSONWebKey{Key: mine.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"})})
	require.NoError(t, err)
	with := func(key *rsa.PrivateKey, headers map[jose.HeaderKey]any) string {
		options := &jose.SignerOptions{EmbedJWK: key == theirs}
		for name, value := range headers {
			options = options.WithHeader(name, value)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, options)
		require.NoError(t, err)
		text, err := json.Marshal(payload())
		require.NoError(t, err)
		object, err := signer.Sign(text)
		require.NoError(t, err)
		token, err := object.CompactSerialize()
		require.NoError(t, err)
		return token
	}
	for name, token := range map[string]string{
		"a key of its own":              with(theirs, nil),
		"where its key is":              with(theirs, map[jose.HeaderKey]any{"jku": attacker.URL, "x5u": attacker.URL}),
		"an extension that is critical": with(mine, map[jose.HeaderKey]any{"crit": []string{"exp"}, "exp": 1}),
		"two signatures in JSON":        `{"payload":"e30","signatures":[{"signature":"a.b.c"}]}`,
		"an encrypted token":            "a.b.c.d.e",
	} {
		_, err := v.Verify(context.Background(), token)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	require.Zero(t, asked.Load())
	_, err = v.Verify(context.Background(), with(mine, map[jose.HeaderKey]any{"jku": attacker.URL, "typ": "at+jwt"}))
	require.NoError(t, err, "what does not matter does no harm")
	require.Zero(t, asked.Load())
}

func TestVerify_audiencesAndTimes(t *testing.T) {
	i := newIssuer(t, "k1")
	v := i.verifier(t, nil)
	// from is a time relative to the signing of the token, because the tokens before it may take some time.
	type from time.Duration
	for name, c := range map[string]struct {
		claim string
		value any
		good  bool
	}{
		"one audience":                     {"aud", "mind", true},
		"among others":                     {"aud", []string{"a", "mind", "b"}, true},
		"none":                             {"aud", []string{}, false},
		"one that begins alike":            {"aud", "mind-staging", false},
		"in capitals":                      {"aud", "MIND", false},
		"with a space":                     {"aud", []string{"mind "}, false},
		"within a list in a list":          {"aud", []any{[]string{"mind"}}, false},
		"an object":                        {"aud", map[string]any{"mind": true}, false},
		"another issuer, by a slash":       {"iss", "/", false},
		"good in a moment, clocks differ":  {"nbf", from(15 * time.Second), true},
		"good in a minute":                 {"nbf", from(90 * time.Second), false},
		"made in a moment":                 {"iat", from(15 * time.Second), true},
		"made in a minute":                 {"iat", from(90 * time.Second), false},
		"ended a moment ago":               {"exp", from(-15 * time.Second), true},
		"ended a minute ago":               {"exp", from(-90 * time.Second), false},
		"ended before there were clocks":   {"exp", -1, false},
		"an end that is no number":         {"exp", "tomorrow", false},
		"an end that is nothing":           {"exp", nil, false},
		"a tenant that is a list":          {"tenant_id", []string{"tnt_a", "tnt_b"}, false},
		"scopes as a list":                 {"scope", []string{"scaimind:manage"}, false},
		"a role that is an object":         {"role", map[string]any{}, false},
		"a claim that is as long as a log": {"other", strings.Repeat("x", 1<<20), true},
	} {
		_, err := v.Verify(context.Background(), i.sign(t, "k1", func(m map[string]any) {
			m[c.claim] = c.value
			if d, ok := c.value.(from); ok {
				m[c.claim] = time.Now().Add(time.Duration(d)).Unix()
			}
		}))
		if c.good {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, ErrInvalid, name)
	}
}

// A withdrawn signing key is accepted only until the keys are fetched again, and not as long as an issuer may be
// unreachable.
func TestVerify_aWithdrawnKeyIsNoticedWithoutANewOne(t *testing.T) {
	i := newIssuer(t, "k1", "k2")
	v := i.verifier(t, func(c *Config) { c.MinRefresh, c.Refresh = time.Nanosecond, time.Nanosecond })
	stolen := i.sign(t, "k1", nil)
	_, err := v.Verify(context.Background(), stolen)
	require.NoError(t, err)
	i.mu.Lock()
	delete(i.keys, "k1")
	i.mu.Unlock()
	require.Eventually(t, func() bool {
		_, err := v.Verify(context.Background(), stolen)
		return err != nil
	}, time.Minute, time.Millisecond)
	_, err = v.Verify(context.Background(), stolen)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = v.Verify(context.Background(), i.sign(t, "k2", nil))
	require.NoError(t, err)
}
