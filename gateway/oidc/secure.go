package oidc

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// secure holds that keys do not come in the clear: whoever sits in the middle would put his own in their place, and be
// everybody. Within this machine nobody does.
func secure(u *url.URL) error {
	host := u.Hostname()
	ip := net.ParseIP(host)
	if u.Scheme == "https" && host != "" || u.Scheme == "http" && (host == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%q: keys come by https (http is for this machine only)", u.Redacted())
}

func secureText(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("it is not a URL")
	}
	return secure(u)
}

const maxRedirects = 5

// careful is the client, held to the same where it is sent on.
func careful(client *http.Client) *http.Client {
	own := *client
	own.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("it redirects more than %d times", maxRedirects)
		}
		if via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return fmt.Errorf("it redirects from https to %s", next.URL.Scheme)
		}
		return secure(next.URL)
	}
	return &own
}
