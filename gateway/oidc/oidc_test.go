package oidc

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
)

// patient waits for the issuer as long as a busy machine may need.
var patient = &http.Client{Timeout: time.Minute}

// issuer is a real HTTP server with a discovery document and keys that can be rotated.
type issuer struct {
	*httptest.Server
	mu      sync.Mutex
	keys    map[string]*rsa.PrivateKey
	fetches atomic.Int32
	down    atomic.Bool
}

func newIssuer(t *testing.T, ids ...string) *issuer {
	i := &issuer{keys: map[string]*rsa.PrivateKey{}}
	i.rotate(t, ids...)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
		case "/keys":
			i.fetches.Add(1)
			i.mu.Lock()
			defer i.mu.Unlock()
			var set jose.JSONWebKeySet
			for id, key := range i.keys {
				set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: "RS256", Use: "sig"})
			}
			_ = json.NewEncoder(w).Encode(set)
		}
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) rotate(t *testing.T, ids ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = map[string]*rsa.PrivateKey{}
	for _, id := range ids {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		i.keys[id] = key
	}
}

func (i *issuer) sign(t *testing.T, id string, change func(map[string]any)) string {
	now := time.Now()
	payload := map[string]any{
		"iss": i.URL, "aud": []string{"other", "mind"}, "sub": "usr_1", "tenant_id": "tnt_a", "partner_id": "p1", "role": "tenant_viewer",
		"groups": []any{"g1", 7, "g2"}, "roles": "lead reviewer", "scope": "openid scaimind:manage", "client_id": "cli", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	if change != nil {
		change(payload)
	}
	return signed(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.keys[id], KeyID: id}}, payload)
}

func signed(t *testing.T, key jose.SigningKey, payload any) string {
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	require.NoError(t, err)
	token, err := jwt.Signed(signer).Claims(payload).Serialize()
	require.NoError(t, err)
	return token
}

func (i *issuer) verifier(t *testing.T, change func(*Config)) *Verifier {
	config := Config{Issuer: i.URL, Audience: "mind", Client: patient}
	if change != nil {
		change(&config)
	}
	v, err := New(config)
	require.NoError(t, err)
	return v
}

func TestVerify_claims(t *testing.T) {
	i := newIssuer(t, "k1")
	c, err := i.verifier(t, nil).Verify(context.Background(), i.sign(t, "k1", nil))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), c.Expires, time.Minute)
	c.Expires = time.Time{}
	require.Equal(t, &Claims{
		Subject: "usr_1", Tenant: "tnt_a", Partner: "p1", Role: "tenant_viewer", Groups: []string{"g1", "g2"}, Roles: []string{"lead reviewer"}, ClientID: "cli", Scopes: []string{"openid", "scaimind:manage"},
	}, c)
}

func TestVerify_refuses(t *testing.T) {
	i := newIssuer(t, "k1")
	stranger := newIssuer(t, "k1")
	v := i.verifier(t, nil)
	set := func(key string, value any) func(map[string]any) {
		return func(m map[string]any) {
			if value == nil {
				delete(m, key)
				return
			}
			m[key] = value
		}
	}
	public, err := x509.MarshalPKIXPublicKey(i.keys["k1"].Public())
	require.NoError(t, err)
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	segment := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	good := map[string]any{"iss": i.URL, "aud": "mind", "exp": time.Now().Add(time.Hour).Unix()}
	for name, token := range map[string]string{
		"another issuer's name":                  i.sign(t, "k1", set("iss", "https://elsewhere")),
		"another issuer's key of the same id":    stranger.sign(t, "k1", set("iss", i.URL)),
		"another audience":                       i.sign(t, "k1", set("aud", "elsewhere")),
		"no audience":                            i.sign(t, "k1", set("aud", nil)),
		"expired longer ago than clocks differ":  i.sign(t, "k1", set("exp", time.Now().Add(-2*time.Minute).Unix())),
		"never expires":                          i.sign(t, "k1", set("exp", nil)),
		"not good yet":                           i.sign(t, "k1", set("nbf", time.Now().Add(2*time.Minute).Unix())),
		"made tomorrow":                          i.sign(t, "k1", set("iat", time.Now().Add(24*time.Hour).Unix())),
		"an algorithm with a secret: the key":    signed(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: "k1"}}, good),
		"an algorithm that was not configured":   signed(t, jose.SigningKey{Algorithm: jose.PS256, Key: jose.JSONWebKey{Key: i.keys["k1"], KeyID: "k1"}}, good),
		"no signature":                           segment(`{"alg":"none","typ":"JWT"}`) + "." + segment(`{"iss":"`+i.URL+`","aud":"mind","exp":9999999999}`) + ".",
		"a payload that was changed":             tampered(i.sign(t, "k1", nil)),
		"not a token":                            "a.b.c",
		"nothing":                                "",
		"an id that the issuer has no key of":    signed(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.keys["k1"], KeyID: "k9"}}, good),
		"an id that leads out of the claims set": i.sign(t, "k1", set("tenant_id", 7)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := v.Verify(context.Background(), token)
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
	_, err = v.Verify(context.Background(), i.sign(t, "k1", set("exp", time.Now().Add(-10*time.Second).Unix())))
	require.NoError(t, err, "clocks may differ by half a minute")
}

func tampered(token string) string {
	raw := []byte(token)
	for i := range raw {
		if raw[i] == '.' {
			raw[i+5] ^= 1
			break
		}
	}
	return string(raw)
}

func TestVerify_rotationNeedsNobody(t *testing.T) {
	i := newIssuer(t, "k1")
	v := i.verifier(t, func(c *Config) { c.MinRefresh = time.Nanosecond })
	_, err := v.Verify(context.Background(), i.sign(t, "k1", nil))
	require.NoError(t, err)
	old := i.sign(t, "k1", nil)
	i.rotate(t, "k2")
	_, err = v.Verify(context.Background(), i.sign(t, "k2", nil))
	require.NoError(t, err)
	_, err = v.Verify(context.Background(), old)
	require.ErrorIs(t, err, ErrInvalid, "a key that was withdrawn is not believed any more")
}

func TestVerify_forgedKeyIDsDoNotReachTheIssuer(t *testing.T) {
	i := newIssuer(t, "k1")
	v := i.verifier(t, func(c *Config) { c.MinRefresh = time.Hour })
	_, err := v.Verify(context.Background(), i.sign(t, "k1", nil))
	require.NoError(t, err)
	for range 50 {
		_, err := v.Verify(context.Background(), signed(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.keys["k1"], KeyID: "forged"}}, map[string]any{}))
		require.ErrorIs(t, err, ErrInvalid)
	}
	require.EqualValues(t, 1, i.fetches.Load())
}

func TestVerify_issuerDown(t *testing.T) {
	i := newIssuer(t, "k1")
	token := i.sign(t, "k1", nil)
	v := i.verifier(t, func(c *Config) { c.MinRefresh = time.Nanosecond })
	i.down.Store(true)
	_, err := v.Verify(context.Background(), token)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrInvalid, "nobody can tell: it is not the token's fault")
	i.down.Store(false)
	_, err = v.Verify(context.Background(), token)
	require.NoError(t, err)
	i.down.Store(true)
	_, err = v.Verify(context.Background(), token)
	require.NoError(t, err, "keys that were fetched stay good")
}

func TestVerify_oneFetchForAll(t *testing.T) {
	i := newIssuer(t, "k1")
	token := i.sign(t, "k1", nil)
	v := i.verifier(t, nil)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, err := v.Verify(context.Background(), token)
			require.NoError(t, err)
		})
	}
	all.Wait()
	require.EqualValues(t, 1, i.fetches.Load())
}

func TestNew_refusesSharedSecrets(t *testing.T) {
	for _, algorithm := range []string{"HS256", "none", "RS255"} {
		_, err := New(Config{Issuer: "https://a", Audience: "mind", Algorithms: []string{algorithm}})
		require.ErrorContains(t, err, "not supported")
	}
	_, err := New(Config{Issuer: "https://a"})
	require.ErrorContains(t, err, "audience")
}
