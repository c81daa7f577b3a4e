package oidc

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// secure requires that keys are fetched over https. A man in the middle could replace them with other keys and impersonate
// every user. Within this machine plain http is safe.
func secure(u *url.URL) error {
	host := u.Hostname()
	ip := net.ParseIP(host)
	if u.Scheme == "https" && host != "" || u.Scheme == "http" && (host == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%q: keys must be fetched over https (http is allowed only within this machine)", u.Redacted())
}

func secureText(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("it is not a URL")
	}
	return secure(u)
}

const maxRedirects = 5

// careful returns a client that applies the same rule to redirects.
func careful(client *http.Client) *http.Client {
	own := *client
	own.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		if via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return fmt.Errorf("redirect from https to %s", next.URL.Scheme)
		}
		return secure(next.URL)
	}
	return &own
}
