package auth

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of trusted proxies, whose X-Forwarded-For header names the client.
type Proxies []netip.Prefix

// ParseProxies parses addresses and networks.
func ParseProxies(texts []string) (Proxies, error) {
	var all Proxies
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("trusted_proxies: %q is neither an address nor a network such as 10.0.0.0/8", text)
		}
		all = append(all, network.Masked())
	}
	return all, nil
}

func (p Proxies) has(ip netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(ip.Unmap()) })
}

// ClientOf returns the client's address: the peer of the connection, or, if that is a trusted proxy, the address that the
// proxy names. Each proxy appends the address of its own peer, so the list is read from its end up to the first address
// that is not a trusted proxy. Anything before it may be forged.
func (p Proxies) ClientOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if len(p) == 0 {
		return host
	}
	at, err := netip.ParseAddr(host)
	if err != nil || !p.has(at) {
		return host
	}
	named := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(named) - 1; i >= 0; i-- {
		ip, err := namedAddr(strings.TrimSpace(named[i]))
		if err != nil {
			break
		}
		if at = ip.Unmap(); !p.has(at) {
			break
		}
	}
	return at.String()
}

// Secure reports whether the client speaks HTTPS: to this gateway, or to a trusted proxy, which says so.
func (p Proxies) Secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	at, err := netip.ParseAddr(host)
	said := strings.Split(strings.Join(r.Header["X-Forwarded-Proto"], ","), ",")
	return err == nil && p.has(at) && !slices.ContainsFunc(said, func(proto string) bool { return strings.TrimSpace(proto) != "https" })
}

// namedAddr parses an address in the form in which proxies write it; some add the port.
func namedAddr(text string) (netip.Addr, error) {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr(), nil
	}
	return netip.ParseAddr(strings.Trim(text, "[]"))
}

type addressKey struct{}

// WithAddress adds the client's address to the context.
func WithAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// AddressOf returns the client's address of a context; empty: there is none.
func AddressOf(ctx context.Context) string {
	address, _ := ctx.Value(addressKey{}).(string)
	return address
}
