package datacache

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

// reach decides which hosts data may be fetched from, on every connection and for every hop of a redirect: a source is named
// by whoever may submit jobs, and must not become a way to ask, in the name of the node, what only the node may ask (its own
// doors, the metadata service of a cloud). Services that the operator has configured are always in reach.
type reach struct {
	allowed hosts
	trusted map[string]bool // host:port of the operator's services
	client  *http.Client
	s3      *http.Transport
	dialer  net.Dialer
}

// hosts is a list of what may be reached.
type hosts struct {
	any      bool
	none     bool // nothing was said
	names    map[string]bool
	suffixes []string
	nets     []netip.Prefix
}

// parseHosts reads names, *.SUFFIX, addresses and networks; "*" is every host, this machine too.
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

// byName says whether a host may be reached whatever its address is.
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

// byAddr says whether an address may be reached whatever name led to it.
func (h *hosts) byAddr(addr netip.Addr) bool {
	addr = plain(addr)
	if h.none {
		return !addr.IsLoopback() && !addr.IsLinkLocalUnicast() && !addr.IsUnspecified() && !addr.IsMulticast() && !metadata(addr) && !own(addr)
	}
	for _, n := range h.nets {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

func newReach(cfg Config) (*reach, error) {
	allowed, err := parseHosts(cfg.Hosts)
	if err != nil {
		return nil, err
	}
	r := &reach{allowed: allowed, trusted: map[string]bool{}, dialer: net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}}
	for _, service := range []string{cfg.Hub.URL, cfg.Drive.URL, cfg.Atlas.URL, cfg.S3.Endpoint} {
		if u, err := baseURL(service); err == nil {
			r.trusted[hostPort(u)] = true
		}
	}
	r.client = &http.Client{Transport: r.transport(nil), CheckRedirect: r.redirect}
	var roots *x509.CertPool
	if cfg.S3.CAFile != "" {
		pem, err := os.ReadFile(cfg.S3.CAFile)
		if err != nil {
			return nil, fmt.Errorf("authority of the object store: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("authority of the object store: %s holds no certificate", cfg.S3.CAFile)
		}
	}
	r.s3 = r.transport(roots)
	return r, nil
}

func (r *reach) transport(roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: r.dial,
		// What is fetched is kept as it is.
		DisableCompression: true, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: workers, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
}

// dial connects where that is allowed: the address is looked at when the name has been resolved, so that no name can lead
// elsewhere than it did when it was checked.
func (r *reach) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := r.dialer
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if !r.trusted[strings.ToLower(addr)] && !r.allowed.byName(host) && !r.isProxy(addr) {
		dialer.ControlContext = func(_ context.Context, _, to string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(to); err != nil || !r.allowed.byAddr(at.Addr()) {
				return faultf("nodes may not fetch data from %s: the operator allows hosts with data_hosts of the agent", host)
			}
			return nil
		}
	}
	return dialer.DialContext(ctx, network, addr)
}

// isProxy: what goes through the proxy of the node is checked by name alone, before (see check).
func (r *reach) isProxy(addr string) bool {
	for _, scheme := range []string{"http", "https"} {
		proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: "mind.invalid"}})
		if err == nil && proxy != nil && hostPort(proxy) == strings.ToLower(addr) {
			return true
		}
	}
	return false
}

// check looks at a URL before it is asked for. Without a proxy dial sees more.
func (r *reach) check(request *http.Request) error {
	if s := request.URL.Scheme; s != "http" && s != "https" {
		return faultf("it leads to %s://, which is not fetched from", s)
	}
	proxy, err := http.ProxyFromEnvironment(request)
	if err != nil || proxy == nil {
		return nil // dial decides
	}
	host := request.URL.Hostname()
	addr, err := netip.ParseAddr(host)
	if r.trusted[hostPort(request.URL)] || r.allowed.byName(host) || err == nil && r.allowed.byAddr(addr) || err != nil && r.allowed.none && host != "localhost" {
		return nil
	}
	return faultf("nodes may not fetch data from %s: the operator allows hosts with data_hosts of the agent", host)
}

const maxRedirects = 10

func (r *reach) redirect(request *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return faultf("it redirects more than %d times", maxRedirects)
	}
	if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
		return faultf("it redirects from https to %s", request.URL.Scheme)
	}
	if hostPort(request.URL) != hostPort(via[0].URL) {
		// The client would send it on to other ports of the same host.
		request.Header.Del("Authorization")
	}
	return r.check(request)
}

// do sends a request.
func (r *reach) do(request *http.Request) (*http.Response, error) {
	if err := r.check(request); err != nil {
		return nil, err
	}
	return r.client.Do(request)
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

// baseURL reads the URL of a service.
func baseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("give https://HOST or https://HOST:PORT/PATH, without a password or query")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}
