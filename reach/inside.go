package reach

import (
	"net"
	"net/netip"
)

// metadataNets are the addresses, beside link-local ones, at which clouds serve metadata to their machines, including
// the machine's credentials.
var metadataNets = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"),      // Amazon's, by IPv6
	netip.MustParsePrefix("fd20:ce::/32"),       // Google's, by IPv6
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba's
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure's wire server
	netip.MustParsePrefix("192.0.0.0/24"),       // Oracle's, in the block of the protocols
}

// never reports whether an address is refused whatever the operator allows.
func never(addr netip.Addr) bool {
	addr = plain(addr)
	return addr.IsLinkLocalUnicast() || metadata(addr)
}

func neverFetched(host string) error {
	return refusalf("nodes never fetch data from %s: link-local addresses and the metadata services of clouds are not for jobs", host)
}

func metadata(addr netip.Addr) bool {
	for _, n := range metadataNets {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// translated are IPv6 addresses that a translator (NAT64) maps to the IPv4 address in their last bytes.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// plain returns the address that a connection finally reaches.
func plain(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if translated.Contains(addr) {
		b := addr.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

// own reports whether this machine has the address: connections to it bypass the machine's firewall.
func own(addr netip.Addr) bool {
	mine, err := net.InterfaceAddrs()
	if err != nil {
		return true // unknown: refuse
	}
	for _, a := range mine {
		if n, ok := a.(*net.IPNet); ok {
			if at, ok := netip.AddrFromSlice(n.IP); ok && at.Unmap() == addr {
				return true
			}
		}
	}
	return false
}
