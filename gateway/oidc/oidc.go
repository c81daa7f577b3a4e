// Package oidc verifies the JSON web tokens of one OpenID Connect issuer.
//
// Contract: Verify returns the claims of a token that the issuer signed for this audience, and that is good now.
//
// Guarantees: only the configured signature algorithms are accepted, whatever the header of a token says, and never
// "none" or one with a shared secret. The issuer's keys are fetched when they are first needed and again when a token names a key that is not known (so that
// a rotation needs nobody's help), but no more often than once in MinRefresh, so that forged key ids cannot be used against the
// issuer. Keys that were fetched stay good for MaxAge while the issuer cannot be reached; while it can, one that it withdrew is
// not believed for longer than Refresh, and the use after it. Keys come by https, also where the issuer sends on to; in the
// clear only within this machine.
//
// Not guaranteed: that a token was not revoked. It is good until it expires.
package oidc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// ErrInvalid is wrapped by every error that is the token's fault; any other error means that it could not be checked.
var ErrInvalid = errors.New("invalid token")

// Config says whose tokens are accepted.
type Config struct {
	// Issuer is the exact value of the claim iss, and, without KeysURL, where the discovery document is found.
	Issuer string
	// Audience must be among the claim aud.
	Audience string
	// KeysURL is where the key set (JWKS) is; empty: where the issuer's discovery document says.
	KeysURL string
	// Algorithms that signatures may have; default RS256.
	Algorithms []string
	// Skew is by how much the clocks of issuer and gateway may differ; default 30 s.
	Skew time.Duration
	// MinRefresh and MaxAge bound how often keys are fetched and how long they are believed; default 10 s and 24 h.
	MinRefresh, MaxAge time.Duration
	// Refresh is after how long keys that are in use are fetched again, while what was fetched is used, so that one that was
	// withdrawn is believed for no longer; default 10 min.
	Refresh time.Duration
	// Client fetches the keys; default: one with a timeout of 5 s.
	Client *http.Client
}

// asymmetric are the algorithms that may be configured: none with a secret that would have to be shared.
var asymmetric = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Claims are those that Mind reads.
type Claims struct {
	Subject  string
	Tenant   string
	Partner  string
	Role     string
	ClientID string
	// Scopes are the words of the claim scope.
	Scopes  []string
	Expires time.Time
}

// claims is a token's payload as it is written.
type claims struct {
	jwt.Claims
	Tenant   string `json:"tenant_id"`
	Partner  string `json:"partner_id"`
	Role     string `json:"role"`
	ClientID string `json:"client_id"`
	Scope    string `json:"scope"`
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
		return nil, errors.New("an OIDC issuer and the audience of its tokens are both needed")
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
			return nil, fmt.Errorf("signature algorithm %q is not accepted: take one of %v", name, asymmetric)
		}
		v.algorithms = append(v.algorithms, algorithm)
	}
	return v, nil
}

// LooksLikeOne says whether a bearer token has the form of a JSON web token.
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
		Subject: c.Subject, Tenant: c.Tenant, Partner: c.Partner, Role: c.Role, ClientID: c.ClientID,
		Scopes: strings.Fields(c.Scope), Expires: c.Expiry.Time(),
	}, nil
}
