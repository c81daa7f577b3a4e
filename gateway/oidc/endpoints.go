package oidc

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Endpoints are where users sign in at an issuer, and where a client gets their tokens.
type Endpoints struct {
	Authorization string `json:"authorization_endpoint"`
	Token         string `json:"token_endpoint"`
}

// Discovery finds the endpoints of an issuer in its discovery document, and keeps them for MaxAge.
type Discovery struct {
	keys *keySet

	mu      sync.Mutex
	found   Endpoints
	fetched time.Time
	tried   time.Time
	failure error
}

// NewDiscovery returns the discovery of the issuer of a verifier.
func (v *Verifier) NewDiscovery() *Discovery { return &Discovery{keys: v.keys} }

// Find returns the endpoints. Callers share one fetch, and an issuer that is down is asked once per MinRefresh.
func (d *Discovery) Find(ctx context.Context) (Endpoints, error) {
	config := d.keys.config
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found.Token != "" && time.Since(d.fetched) < config.MaxAge {
		return d.found, nil
	}
	if d.failure != nil && time.Since(d.tried) < config.MinRefresh {
		return Endpoints{}, d.failure
	}
	// The fetch continues when its caller hangs up, and ends with the client's timeout.
	found, err := d.fetch(context.WithoutCancel(ctx))
	if err != nil {
		d.failure, d.tried = err, time.Now()
		return Endpoints{}, err
	}
	d.found, d.fetched, d.failure = found, time.Now(), nil
	return found, nil
}

func (d *Discovery) fetch(ctx context.Context) (Endpoints, error) {
	config := d.keys.config
	var document struct {
		Endpoints
		Issuer string `json:"issuer"`
	}
	if err := d.keys.get(ctx, strings.TrimSuffix(config.Issuer, "/")+"/.well-known/openid-configuration", &document); err != nil {
		return Endpoints{}, err
	}
	if document.Issuer != config.Issuer {
		return Endpoints{}, fmt.Errorf("the discovery document belongs to issuer %q, not %q", document.Issuer, config.Issuer)
	}
	for _, at := range []string{document.Authorization, document.Token} {
		if err := secureText(at); err != nil {
			return Endpoints{}, fmt.Errorf("an endpoint of the issuer: %w", err)
		}
		if strings.HasPrefix(config.Issuer, "https:") && !strings.HasPrefix(at, "https:") {
			return Endpoints{}, fmt.Errorf("the discovery document names an endpoint at %q, which is not https", at)
		}
	}
	return document.Endpoints, nil
}

// Client returns the client of the issuer, which follows no redirect to a place that is not secure.
func (v *Verifier) Client() *http.Client { return v.config.Client }
