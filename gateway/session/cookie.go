package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/gateway/auth"
)

const (
	// secretStart is the prefix of the secret of a session.
	secretStart = "sck_"
	// secureName is bound to HTTPS, this host and all of its paths by its prefix: no other host can set it. plainName is for
	// loopback without HTTPS, where browsers refuse the prefix.
	secureName = "__Host-mind"
	plainName  = "mind"
)

// Mint creates the secret of a session, and the digest under which the coordinators keep it.
func Mint() (secret string, digest [sha256.Size]byte) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	secret = secretStart + base64.RawURLEncoding.EncodeToString(random[:])
	return secret, sha256.Sum256([]byte(secret))
}

// Why the cookie of a request is no credential.
var (
	// ErrNone: there is no cookie.
	ErrNone = errors.New("no session")
	// ErrNotOfThisOrigin: nothing says that a page of this origin made the request.
	ErrNotOfThisOrigin = errors.New("the request was not made by a page of this origin")
	// ErrCrossOrigin: a page of another origin made the request, which is a write.
	ErrCrossOrigin = errors.New("a page of another origin made the request")
	// ErrInvalid: the cookie is not one that was set here.
	ErrInvalid = errors.New("the cookie is not valid")
)

// Site is where a browser sees a gateway.
type Site struct {
	// secure: the browser speaks HTTPS. loopback: the browser is on this machine, and speaks plain HTTP to it.
	secure, loopback bool
	// foreign: the page that made the request is not on this machine, so that its browser may not be here, either.
	foreign bool
}

// SiteOf returns the site that a request was sent to.
func SiteOf(r *http.Request, proxies auth.Proxies) Site {
	if proxies.Secure(r) {
		return Site{secure: true}
	}
	client, err := netip.ParseAddr(proxies.ClientOf(r))
	return Site{
		loopback: err == nil && client.Unmap().IsLoopback() && loopbackHost(r.Host) && !forwarded(r.Header),
		foreign:  slices.ContainsFunc(r.Header["Origin"], foreignOrigin),
	}
}

// forwarded reports whether a proxy says that it has passed a request on. A proxy on this machine that is not a trusted one hides
// where the browser is.
func forwarded(h http.Header) bool {
	for name := range h {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

func foreignOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err != nil || !loopbackHost(u.Host)
}

// loopbackHost reports whether a Host header names loopback. Another name may lead here, too (DNS rebinding), or belong to a
// proxy that hides where the browser is.
func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Safe reports whether a cookie can be set there: nobody on the way can read it.
func (s Site) Safe() bool { return s.secure || s.loopback && !s.foreign }

func (s Site) name() string {
	if s.secure {
		return secureName
	}
	return plainName
}

var crossOrigin = http.NewCrossOriginProtection()

// Read returns the digest of the session that a request comes with. The request has no Authorization header.
func (s Site) Read(r *http.Request) (digest [sha256.Size]byte, err error) {
	cookies := r.CookiesNamed(s.name())
	if !s.secure && !s.loopback || len(cookies) == 0 {
		return digest, ErrNone
	}
	if crossOrigin.Check(r) != nil {
		return digest, ErrCrossOrigin
	}
	if from := r.Header["Sec-Fetch-Site"]; len(from) != 1 || from[0] != "same-origin" || !s.Safe() {
		return digest, ErrNotOfThisOrigin
	}
	// A second cookie of the name may come from another application on this host.
	if len(cookies) > 1 || !strings.HasPrefix(cookies[0].Value, secretStart) {
		return digest, ErrInvalid
	}
	return sha256.Sum256([]byte(cookies[0].Value)), nil
}

// Set lets the browser keep the secret of a session until it expires.
func (s Site) Set(w http.ResponseWriter, secret string, expires time.Time) {
	cookie := s.cookie()
	cookie.Value, cookie.Expires = secret, expires
	http.SetCookie(w, cookie)
}

// Clear lets the browser forget it.
func (s Site) Clear(w http.ResponseWriter) {
	cookie := s.cookie()
	cookie.MaxAge = -1
	http.SetCookie(w, cookie)
}

func (s Site) cookie() *http.Cookie { return s.Cookie("", http.SameSiteStrictMode) }

// Cookie returns an empty cookie of this site, for a purpose beside that of the session.
func (s Site) Cookie(purpose string, from http.SameSite) *http.Cookie {
	name := s.name()
	if purpose != "" {
		name += "-" + purpose
	}
	return &http.Cookie{Name: name, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: from}
}

// Origin returns the origin of the site of a request, as the browser has it.
func (s Site) Origin(r *http.Request) string {
	if s.secure {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
