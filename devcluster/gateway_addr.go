package devcluster

import (
	"fmt"
	"net"
	"strconv"

	"github.com/mindcoordinator/mind/devcluster/ports"
)

// gatewayAddr chooses the address of the gateway: exactly the requested one, or, for port 0, any free port. Without a
// request, it is the address of the last start, or the first free one from the default on.
func gatewayAddr(p *ports.Set, asked, last string) (string, error) {
	if h, port, err := net.SplitHostPort(asked); err == nil && port == "0" {
		return p.Find(h, false)
	}
	if asked != "" {
		if err := p.Take(asked, false); err != nil {
			return "", fmt.Errorf("the gateway cannot listen on %s (%w): free it, or give another --http", asked, err)
		}
		return asked, nil
	}
	if last != "" && p.Take(last, false) == nil {
		return last, nil
	}
	for port := defaultHTTP; port < defaultHTTP+1000; port++ {
		addr := net.JoinHostPort(host, strconv.Itoa(port))
		if p.Take(addr, false) == nil {
			return addr, nil
		}
	}
	return "", fmt.Errorf("found no free port for the gateway from %s:%d on: give one with --http", host, defaultHTTP)
}
