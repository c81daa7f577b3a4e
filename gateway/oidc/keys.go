package oidc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// maxDocument limits the size of an issuer's answer.
const maxDocument = 1 << 20

// keySet holds the issuer's public keys as last fetched.
type keySet struct {
	config Config

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time // of keys
	tried   time.Time
	failure error
	// flight is closed when the fetch in progress ends; nil: none is in progress.
	flight chan struct{}
}

func newKeySet(config Config) *keySet { return &keySet{config: config} }

// find returns the key that a token names, after at most one fetch, which all callers share.
func (s *keySet) find(ctx context.Context, id, algorithm string) (*jose.JSONWebKey, error) {
	s.mu.Lock()
	key, known, err := s.look(id, algorithm, false)
	var fetched <-chan struct{}
	if !known || s.stale() {
		// This happens under the same lock as the look-up, so that a fetch that ends in between is the shared one.
		fetched = s.fetchOnce(ctx)
	}
	s.mu.Unlock()
	if known {
		return key, err // Refresh in the background.
	}
	select {
	case <-fetched:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the issuer's keys: %w", context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key, _, err = s.look(id, algorithm, true)
	return key, err
}

// look answers from the fetched keys. known is false if a fetch may help, and never with last set. The caller holds mu.
func (s *keySet) look(id, algorithm string, last bool) (key *jose.JSONWebKey, known bool, err error) {
	if time.Since(s.fetched) < s.config.MaxAge {
		if key := pick(s.keys, id, algorithm); key != nil {
			return key, true, nil
		}
	}
	if !last && (s.flight != nil || s.tried.IsZero() || time.Since(s.tried) >= s.config.MinRefresh) {
		return nil, false, nil
	}
	if s.failure != nil {
		return nil, true, fmt.Errorf("fetch the issuer's keys: %w", s.failure)
	}
	return nil, true, fmt.Errorf("%w: the issuer has no key %q for %s", ErrInvalid, id, algorithm)
}

// stale reports whether the keys should be fetched again. The caller holds mu.
func (s *keySet) stale() bool {
	return time.Since(s.fetched) >= s.config.Refresh && time.Since(s.tried) >= s.config.MinRefresh
}

// fetchOnce joins the fetch in progress, or starts one. The fetch continues when its caller hangs up, and ends with the
// client's timeout. The caller holds mu.
func (s *keySet) fetchOnce(ctx context.Context) <-chan struct{} {
	if s.flight == nil {
		s.flight = make(chan struct{})
		go s.fetch(context.WithoutCancel(ctx), s.flight)
	}
	return s.flight
}

// pick returns the key with this id; without an id, the only key that fits the algorithm.
func pick(keys []jose.JSONWebKey, id, algorithm string) *jose.JSONWebKey {
	var found *jose.JSONWebKey
	for i := range keys {
		k := &keys[i]
		if id != "" && k.KeyID != id || k.Algorithm != "" && k.Algorithm != algorithm || k.Use != "" && k.Use != "sig" {
			continue
		}
		if found != nil {
			return nil // ambiguous
		}
		found = k
	}
	return found
}

func (s *keySet) fetch(ctx context.Context, flight chan struct{}) {
	keys, err := s.load(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure, s.tried = err, time.Now()
	if err == nil {
		s.keys, s.fetched = keys, s.tried
	}
	s.flight = nil
	close(flight)
}

func (s *keySet) load(ctx context.Context) ([]jose.JSONWebKey, error) {
	url := s.config.KeysURL
	if url == "" {
		var discovery struct {
			Issuer  string `json:"issuer"`
			KeysURL string `json:"jwks_uri"`
		}
		if err := s.get(ctx, strings.TrimSuffix(s.config.Issuer, "/")+"/.well-known/openid-configuration", &discovery); err != nil {
			return nil, err
		}
		if discovery.Issuer != s.config.Issuer {
			return nil, fmt.Errorf("the discovery document belongs to issuer %q, not %q", discovery.Issuer, s.config.Issuer)
		}
		if url = discovery.KeysURL; strings.HasPrefix(s.config.Issuer, "https:") && !strings.HasPrefix(url, "https:") {
			return nil, fmt.Errorf("the discovery document names keys at %q, which is not https", url)
		}
		if err := secureText(url); err != nil {
			return nil, err
		}
	}
	var set jose.JSONWebKeySet
	if err := s.get(ctx, url, &set); err != nil {
		return nil, err
	}
	usable := set.Keys[:0]
	for _, k := range set.Keys {
		if k.Valid() && k.IsPublic() {
			usable = append(usable, k)
		}
	}
	return usable, nil
}

func (s *keySet) get(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := s.config.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDocument)).Decode(into); err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	return nil
}
