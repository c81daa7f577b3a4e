// Package oidc verifies the JSON web tokens of one OpenID Connect issuer.
//
// Contract: Verify returns the claims of a token that the issuer signed for this audience and that is valid now.
//
// Guarantees: only the configured signature algorithms are accepted, whatever the header of a token says, and never "none"
// or one with a shared secret. The issuer's keys are fetched when first needed and again when a token names an unknown key,
// so key rotation needs no configuration; but at most once per MinRefresh, so that forged key ids do not overload the
// issuer. While the issuer is unreachable, fetched keys stay valid for MaxAge. Otherwise a key that the issuer withdrew is
// accepted for at most Refresh, and for the use after it. Keys are fetched over https, also after redirects; plain http is
// allowed only within this machine.
//
// Not guaranteed: that a token was not revoked. It is valid until it expires.
package oidc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// ErrInvalid is wrapped by every error that is the token's fault. Any other error means that the token could not be
// checked.
var ErrInvalid = errors.New("invalid token")

// Config selects the accepted tokens.
type Config struct {
	// Issuer is the exact value of the claim iss and, without KeysURL, the base of the discovery document's URL.
	Issuer string
	// Audience must be among the claim aud.
	Audience string
	// KeysURL is the URL of the key set (JWKS); empty: as in the issuer's discovery document.
	KeysURL string
	// Algorithms are the accepted signature algorithms; default RS256.
	Algorithms []string
	// Skew is the allowed difference between the clocks of issuer and gateway; default 30 s.
	Skew time.Duration
	// MinRefresh and MaxAge limit how often keys are fetched and how long they are valid; default 10 s and 24 h.
	MinRefresh, MaxAge time.Duration
	// Refresh is the age at which keys in use are fetched again in the background, so that a withdrawn key is not accepted
	// for longer; default 10 min.
	Refresh time.Duration
	// Client fetches the keys; default: one with a timeout of 5 s.
	Client *http.Client
}

// asymmetric are the algorithms that may be configured. None of them uses a shared secret.
var asymmetric = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Claims are the claims that Mind reads.
type Claims struct {
	Subject string
	Tenant  string
	Partner string
	Role    string
	// Groups are those of the user, Roles further roles.
	Groups, Roles []string
	ClientID      string
	// Nonce is that of the request that an ID token answers.
	Nonce string
	// Scopes are the words of the claim scope.
	Scopes  []string
	Expires time.Time
}

// claims is the payload of a token.
type claims struct {
	jwt.Claims
	Tenant   string `json:"tenant_id"`
	Partner  string `json:"partner_id"`
	Role     string `json:"role"`
	Groups   names  `json:"groups"`
	Roles    names  `json:"roles"`
	ClientID string `json:"client_id"`
	Scope    string `json:"scope"`
	Nonce    string `json:"nonce"`
}

// names is a claim that some issuers write as a list, and some as text, which is one name: names may have spaces. Anything else
// counts as nothing.
type names []string

// UnmarshalJSON implements json.Unmarshaler.
func (w *names) UnmarshalJSON(text []byte) error {
	var one string
	var all []any
	*w = nil
	switch {
	case json.Unmarshal(text, &one) == nil:
		*w = names{one}
	case json.Unmarshal(text, &all) == nil:
		for _, v := range all {
			if s, ok := v.(string); ok {
				*w = append(*w, s)
			}
		}
	}
	return nil
}

// Verifier checks the tokens of one issuer.
type Verifier struct {
	config     Config
	algorithms []jose.SignatureAlgorithm
	keys       *keySet
}

// New makes a verifier. It fetches nothing yet: an issuer that is down must not keep a gateway from starting.
func New(config Config) (*Verifier, error) {
	if config.Issuer == "" || config.Audience == "" {
		return nil, errors.New("an OIDC issuer and the audience of its tokens are both required")
	}
	if config.Skew == 0 {
		config.Skew = 30 * time.Second
	}
	if config.MinRefresh == 0 {
		config.MinRefresh = 10 * time.Second
	}
	if config.MaxAge == 0 {
		config.MaxAge = 24 * time.Hour
	}
	if config.Refresh == 0 {
		config.Refresh = 10 * time.Minute
	}
	if config.Client == nil {
		config.Client = &http.Client{Timeout: 5 * time.Second}
	}
	config.Client = careful(config.Client)
	if from := cmp.Or(config.KeysURL, config.Issuer); secureText(from) != nil {
		return nil, fmt.Errorf("keys of the OIDC issuer: %w; give the issuer, or the URL of its keys, with https", secureText(from))
	}
	if len(config.Algorithms) == 0 {
		config.Algorithms = []string{string(jose.RS256)}
	}
	v := &Verifier{config: config, keys: newKeySet(config)}
	for _, name := range config.Algorithms {
		algorithm := jose.SignatureAlgorithm(name)
		if !slices.Contains(asymmetric, algorithm) {
			return nil, fmt.Errorf("signature algorithm %q is not supported: use one of %v", name, asymmetric)
		}
		v.algorithms = append(v.algorithms, algorithm)
	}
	return v, nil
}

// LooksLikeOne reports whether a bearer token has the form of a JSON web token.
func LooksLikeOne(token string) bool { return strings.Count(token, ".") == 2 }

// Verify checks a token.
func (v *Verifier) Verify(ctx context.Context, token string) (*Claims, error) {
	parsed, err := jwt.ParseSigned(token, v.algorithms)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(parsed.Headers) != 1 {
		return nil, fmt.Errorf("%w: it has %d signatures", ErrInvalid, len(parsed.Headers))
	}
	header := parsed.Headers[0]
	key, err := v.keys.find(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return nil, err
	}
	var c claims
	if err := parsed.Claims(key, &c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if c.Expiry == nil {
		return nil, fmt.Errorf("%w: it never expires", ErrInvalid)
	}
	expected := jwt.Expected{Issuer: v.config.Issuer, AnyAudience: jwt.Audience{v.config.Audience}, Time: time.Now()}
	if err := c.ValidateWithLeeway(expected, v.config.Skew); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return &Claims{
		Subject: c.Subject, Tenant: c.Tenant, Partner: c.Partner, Role: c.Role, Groups: c.Groups, Roles: c.Roles, ClientID: c.ClientID, Nonce: c.Nonce,
		Scopes: strings.Fields(c.Scope), Expires: c.Expiry.Time(),
	}, nil
}
