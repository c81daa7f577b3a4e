// Package reach decides which hosts may be asked in the name of users, on every connection and for every redirect: sources of data, and
// receivers of webhooks.
//
// Any user who may submit jobs can choose a source. A source must not give access to services that only the node can reach:
// its own ports, or the metadata service of a cloud. The same holds for the URLs that Cores notify (Listed).
//
// Guarantees: the address is checked after its name was resolved, so a name cannot lead to another address than the
// checked one. Services that the operator has configured are always allowed. Other link-local addresses, and the
// metadata addresses of clouds, are always refused, whatever hosts are allowed. A token is not sent on to another host
// in a redirect.
//
// Not guaranteed: the address that a proxy of the node resolves; behind a proxy only the name is checked.
package reach

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// Refusal explains in a sentence why something may not be fetched. Trying again does not help.
type Refusal string

func (r Refusal) Error() string { return string(r) }

func refusalf(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// Config configures a Guard.
type Config struct {
	// Hosts are names, *.SUFFIX, addresses, networks, or * for all but link-local addresses. Empty: all except this
	// machine and link-local addresses.
	Hosts []string
	// Services are URLs of the operator's services.
	Services []string
	// CAFile is the certificate authority (PEM) of the object store; empty: the authorities of the machine.
	CAFile string
	// Connections limits the idle connections to each host.
	Connections int
}

// Guard sends requests to allowed hosts, and refuses all others.
type Guard struct {
	allowed hosts
	trusted map[string]bool // host:port of the operator's services
	client  *http.Client
	s3      *http.Transport
	dialer  net.Dialer
	idle    int
}

// hosts is a list of allowed hosts.
type hosts struct {
	any      bool
	none     bool // not configured
	names    map[string]bool
	suffixes []string
	nets     []netip.Prefix
}

// parseHosts parses names, *.SUFFIX, addresses and networks; "*" is every host, including this machine.
func parseHosts(list []string) (hosts, error) {
	h := hosts{none: len(list) == 0, names: map[string]bool{}}
	for _, entry := range list {
		entry = strings.ToLower(entry)
		switch {
		case entry == "*":
			h.any = true
		case strings.HasPrefix(entry, "*.") && len(entry) > 2:
			h.suffixes = append(h.suffixes, entry[1:])
		case strings.Contains(entry, "/"):
			prefix, err := netip.ParsePrefix(entry)
			if err != nil {
				return h, fmt.Errorf("data hosts: %q is not a network", entry)
			}
			h.nets = append(h.nets, prefix.Masked())
		default:
			if addr, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
				h.nets = append(h.nets, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
				continue
			}
			if entry == "" || strings.ContainsAny(entry, "*:@ ") {
				return h, fmt.Errorf("data hosts: %q is not a name, *.NAME, address, network or *", entry)
			}
			h.names[entry] = true
		}
	}
	return h, nil
}

// byName reports whether a host is allowed whatever its address is.
func (h *hosts) byName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if h.any || h.names[host] {
		return true
	}
	for _, suffix := range h.suffixes {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}

// byAddr reports whether an address is allowed whatever its name is.
func (h *hosts) byAddr(addr netip.Addr) bool {
	addr = plain(addr)
	if h.none {
		return !addr.IsLoopback() && !never(addr) && !addr.IsUnspecified() && !addr.IsMulticast() && !own(addr)
	}
	for _, n := range h.nets {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// CheckHosts returns the faults of a list of hosts.
func CheckHosts(list []string) error {
	_, err := parseHosts(list)
	return err
}

// New returns a guard.
func New(cfg Config) (*Guard, error) {
	allowed, err := parseHosts(cfg.Hosts)
	if err != nil {
		return nil, err
	}
	r := &Guard{allowed: allowed, trusted: map[string]bool{}, idle: cfg.Connections, dialer: net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}}
	for _, service := range cfg.Services {
		if u, err := Base(service); err == nil {
			r.trusted[HostPort(u)] = true
		}
	}
	r.client = &http.Client{Transport: r.transport(nil), CheckRedirect: r.redirect}
	var roots *x509.CertPool
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("authority of the object store: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("authority of the object store: %s holds no certificate", cfg.CAFile)
		}
	}
	r.s3 = r.transport(roots)
	return r, nil
}

func (r *Guard) transport(roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: r.dial,
		// Content is stored as it was sent.
		DisableCompression: true, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: r.idle, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
}

// dial connects if the address is allowed. It checks the resolved address, so that a name cannot lead to another address
// than the checked one.
func (r *Guard) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := r.dialer
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if !r.trusted[strings.ToLower(addr)] && !r.isProxy(addr) {
		dialer.ControlContext = func(_ context.Context, _, to string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(to)
			switch {
			case err == nil && never(at.Addr()):
				return neverFetched(host)
			case r.allowed.byName(host):
			case err != nil || !r.allowed.byAddr(at.Addr()):
				return refusalf("nodes may not fetch data from %s: the operator can allow it with data_hosts of the agent", host)
			}
			return nil
		}
	}
	return dialer.DialContext(ctx, network, addr)
}

// isProxy reports whether an address is the node's proxy. Requests through it were checked by name before (see check).
func (r *Guard) isProxy(addr string) bool {
	for _, scheme := range []string{"http", "https"} {
		proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: "mind.invalid"}})
		if err == nil && proxy != nil && HostPort(proxy) == strings.ToLower(addr) {
			return true
		}
	}
	return false
}

// check checks a URL before the request. Without a proxy, dial checks more.
func (r *Guard) check(request *http.Request) error {
	if s := request.URL.Scheme; s != "http" && s != "https" {
		return refusalf("it redirects to %s://, which is not supported", s)
	}
	proxy, err := http.ProxyFromEnvironment(request)
	if err != nil || proxy == nil {
		return nil // dial decides
	}
	host := request.URL.Hostname()
	addr, err := netip.ParseAddr(host)
	if err == nil && never(addr) && !r.trusted[HostPort(request.URL)] {
		return neverFetched(host)
	}
	if r.trusted[HostPort(request.URL)] || r.allowed.byName(host) || err == nil && r.allowed.byAddr(addr) || err != nil && r.allowed.none && host != "localhost" {
		return nil
	}
	return refusalf("nodes may not fetch data from %s: the operator can allow it with data_hosts of the agent", host)
}

const maxRedirects = 10

func (r *Guard) redirect(request *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return refusalf("more than %d redirects", maxRedirects)
	}
	if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
		return refusalf("redirect from https to %s", request.URL.Scheme)
	}
	if HostPort(request.URL) != HostPort(via[0].URL) {
		// The client would send it to other ports of the same host.
		request.Header.Del("Authorization")
	}
	return r.check(request)
}

// ObjectStore returns the transport for requests to the object store.
func (r *Guard) ObjectStore() http.RoundTripper { return r.s3 }

// Do sends a request.
func (r *Guard) Do(request *http.Request) (*http.Response, error) {
	if err := r.check(request); err != nil {
		return nil, err
	}
	return r.client.Do(request)
}

// HostPort returns the host of a URL with its port.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

// Base parses the URL of a service.
func Base(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("give https://HOST or https://HOST:PORT/PATH, without a password or query")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}
