package devcluster

import (
	"net"
	"net/netip"
)

// Exposed returns the address of the gateway, and whether other machines can reach it. All other components listen on
// loopback.
func (c *Cluster) Exposed() (addr string, exposed bool) {
	return c.layout.HTTP, !onLoopback(c.layout.HTTP)
}

// onLoopback reports whether only this machine can reach an address. If that is unknown, it is false.
func onLoopback(addr string) bool {
	h, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(h); err == nil {
		return ip.Unmap().IsLoopback()
	}
	if h == "" {
		return false
	}
	ips, err := net.LookupIP(h)
	for _, ip := range ips {
		if !ip.IsLoopback() {
			return false
		}
	}
	return err == nil && len(ips) > 0
}
