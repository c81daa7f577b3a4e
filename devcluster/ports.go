package devcluster

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are looked for below those that the kernel gives to outgoing connections (32768 and up on Linux): one of these
// could otherwise take a port between here and the start of its component.
const (
	lowestPort  = 20000
	highestPort = 32767
)

// ports holds the ports that it has found, so that none is found twice, until release.
type ports struct {
	held []io.Closer
}

// take holds the address, or says why it is not free.
func (p *ports) take(addr string, udp bool) error {
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	p.held = append(p.held, tcp)
	if udp {
		packets, err := net.ListenPacket("udp", addr)
		if err != nil {
			return err
		}
		p.held = append(p.held, packets)
	}
	return nil
}

func (p *ports) keepOrFind(addr string, udp bool) (string, error) {
	if addr != "" && p.take(addr, udp) == nil {
		return addr, nil
	}
	return p.find(host, udp)
}

func (p *ports) find(host string, udp bool) (string, error) {
	for range 200 {
		addr := net.JoinHostPort(host, strconv.Itoa(lowestPort+rand.IntN(highestPort-lowestPort)))
		if p.take(addr, udp) == nil {
			return addr, nil
		}
	}
	return "", fmt.Errorf("found no free port on %s between %d and %d", host, lowestPort, highestPort)
}

// gateway finds the address of the gateway: the one that was asked for or none, and for port 0 any port that is free; else
// that of the last start, or the first free one from the default on.
func (p *ports) gateway(asked, last string) (string, error) {
	if h, port, err := net.SplitHostPort(asked); err == nil && port == "0" {
		return p.find(h, false)
	}
	if asked != "" {
		if err := p.take(asked, false); err != nil {
			return "", fmt.Errorf("the gateway cannot listen on %s (%w): free it, or give another --http", asked, err)
		}
		return asked, nil
	}
	if last != "" && p.take(last, false) == nil {
		return last, nil
	}
	for port := defaultHTTP; port < defaultHTTP+1000; port++ {
		addr := net.JoinHostPort(host, strconv.Itoa(port))
		if p.take(addr, false) == nil {
			return addr, nil
		}
	}
	return "", fmt.Errorf("found no free port for the gateway from %s:%d on: give one with --http", host, defaultHTTP)
}

func (p *ports) release() {
	for _, c := range p.held {
		_ = c.Close()
	}
	p.held = nil
}
