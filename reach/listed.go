package reach

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Listed sends requests to hosts that an operator has listed, and to no others. A name alone leads to public addresses; an address of
// this machine or of a private network has to be in the list itself, because the owner of a name decides where it leads.
type Listed struct {
	// key is the operator's setting, for messages.
	key     string
	allowed hosts
}

// NewListed makes a guard of a list of names, *.SUFFIX, addresses and networks, or * for all public hosts. key names the list in messages.
func NewListed(key string, list []string) (*Listed, error) {
	allowed, err := parseHosts(list)
	if err != nil {
		return nil, err
	}
	allowed.none = false // An empty list allows nothing.
	return &Listed{key, allowed}, nil
}

// Check says why no request may be sent to a URL, before its name is resolved.
func (l *Listed) Check(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" {
		return refusalf("it is not a URL such as https://HOST/PATH, without a password and a fragment")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return refusalf("its port %s is not from 1 to 65535", port)
		}
	}
	host := u.Hostname()
	addr, err := netip.ParseAddr(host)
	literal := err == nil
	switch local := literal && plain(addr).IsLoopback() || isLocalhost(host); {
	case u.Scheme != "https" && (u.Scheme != "http" || !local):
		return refusalf("its scheme has to be https; http is allowed to this machine alone")
	case literal && never(addr):
		return refusalf("%s is never asked: link-local addresses and the metadata services of clouds are not for users", host)
	case !literal && !l.allowed.byName(host), literal && !l.allowed.any && !l.allowed.byAddr(addr):
		return refusalf("%s is not in %s of the coordinators", host, l.key)
	case literal && !l.mayAsk(host, addr):
		return refusalf("%s is not a public address, and not in %s of the coordinators", host, l.key)
	}
	return nil
}

// mayAsk says whether a host that is listed may have an address.
func (l *Listed) mayAsk(host string, addr netip.Addr) bool {
	addr = plain(addr)
	switch {
	case never(addr):
		return false
	case slices.ContainsFunc(l.allowed.nets, func(n netip.Prefix) bool { return n.Contains(addr) }):
		return true
	case isLocalhost(host) && l.allowed.names["localhost"]:
		return addr.IsLoopback()
	}
	special := slices.ContainsFunc(notPublic, func(n netip.Prefix) bool { return n.Contains(addr) })
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !special && !own(addr)
}

// notPublic are the special-purpose networks (IANA's registries, RFC 6890) that net/netip takes for public ones: those of carriers, of
// benchmarks and reserved ones, and those whose addresses stand for IPv4 addresses behind a translator or a tunnel.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

func isLocalhost(host string) bool {
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

// Transport returns a transport that connects to allowed addresses alone. It uses no proxy, which would resolve names itself.
func (l *Listed) Transport() *http.Transport {
	return &http.Transport{
		DialContext: l.dial, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4, MaxIdleConns: 64, IdleConnTimeout: 30 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 16 << 10, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
}

// dial connects if the resolved address is allowed.
func (l *Listed) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: 10 * time.Second, ControlContext: func(_ context.Context, _, to string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(to)
		if err != nil || !l.mayAsk(host, at.Addr()) {
			return refusalf("%s leads to an address that is not public, and not in %s of the coordinators", host, l.key)
		}
		return nil
	}}
	return dialer.DialContext(ctx, network, addr)
}
