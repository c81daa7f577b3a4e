package tunnels

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// dialPatience limits a connection to a port of this machine.
const dialPatience = 5 * time.Second

// connect connects to a port on which a process of the task in a directory listens. Other ports of the node are not for users.
func (s *Tunnels) connect(dir string, port int32) (farEnd, error) {
	if port < 1 || port > 65535 {
		return nil, status.Error(codes.InvalidArgument, "a tunnel has a command, or a port of 1 to 65535")
	}
	spec, err := shim.ReadSpec(dir)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "read the record of the task: %v", err)
	}
	hosts := listening(runner.Processes(spec, s.group(filepath.Base(dir))), uint16(port))
	if len(hosts) == 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "nothing of this job listens on port %d of node %s", port, s.node)
	}
	ctx, cancel := context.WithTimeout(s.tasks.Context(), dialPatience)
	defer cancel()
	for _, host := range hosts {
		var conn net.Conn
		if conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port)))); err != nil {
			continue
		}
		// A job could have closed its socket meanwhile, to be let through to one of another job.
		if slices.Contains(listening(runner.Processes(spec, s.group(filepath.Base(dir))), uint16(port)), host) {
			return &portEnd{conn.(*net.TCPConn)}, nil
		}
		_ = conn.Close()
		err = errors.New("the process that listened has stopped")
	}
	return nil, status.Errorf(codes.FailedPrecondition, "port %d of node %s takes no connection from the node itself: %v", port, s.node, err)
}

// listening returns the loopback addresses at which one of the processes listens on a port: that of IPv4, of IPv6, or both.
func listening(pids []int, port uint16) (hosts []string) {
	owned := map[string]bool{}
	for _, pid := range pids {
		folder := fmt.Sprintf("/proc/%d/fd/", pid)
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // it has ended
		}
		for _, e := range entries {
			if to, err := os.Readlink(folder + e.Name()); err == nil {
				owned[to] = true
			}
		}
	}
	tcp, _ := os.ReadFile("/proc/net/tcp")
	tcp6, _ := os.ReadFile("/proc/net/tcp6") // without IPv6 there is none
	return loopbacks(tcp, tcp6, port, owned)
}

// loopbacks returns the loopback addresses that lead to sockets of owned ("socket:[INODE]"), by the tables of the kernel: those at
// which only sockets of owned listen. A socket of one address comes before one of all addresses, as in the kernel.
func loopbacks(tcp, tcp6 []byte, port uint16, owned map[string]bool) (hosts []string) {
	all := append(listeners(tcp, port), listeners(tcp6, port)...)
	for _, to := range []struct {
		host string
		at   [][]netip.Addr
	}{
		{"127.0.0.1", [][]netip.Addr{{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, {netip.IPv4Unspecified()}, {netip.IPv6Unspecified()}}},
		{"::1", [][]netip.Addr{{netip.IPv6Loopback()}, {netip.IPv6Unspecified()}}},
	} {
		for _, addresses := range to.at {
			there, mine := 0, 0
			for _, l := range all {
				if slices.Contains(addresses, l.at) {
					there++
					if owned["socket:["+l.inode+"]"] {
						mine++
					}
				}
			}
			if there > 0 {
				if there == mine {
					hosts = append(hosts, to.host)
				}
				break
			}
		}
	}
	return hosts
}

// listener is a socket that listens.
type listener struct {
	at    netip.Addr // of IPv4 also when its socket is of IPv6
	inode string
}

// listeners returns the sockets that listen on a port, from a table of the kernel (/proc/net/tcp).
func listeners(table []byte, port uint16) (all []listener) {
	const listen = "0A"
	for line := range bytes.Lines(table) {
		fields := bytes.Fields(line)
		if len(fields) < 10 || string(fields[3]) != listen {
			continue
		}
		address, number, _ := bytes.Cut(fields[1], []byte{':'})
		n, err := strconv.ParseUint(string(number), 16, 16)
		raw, bad := hex.DecodeString(string(address))
		if err != nil || bad != nil || uint16(n) != port || len(raw)%4 != 0 {
			continue
		}
		for i := 0; i < len(raw); i += 4 { // words in the order of the machine, which is little endian on all that Mind runs on
			slices.Reverse(raw[i : i+4])
		}
		if at, ok := netip.AddrFromSlice(raw); ok {
			all = append(all, listener{at.Unmap(), string(fields[9])})
		}
	}
	return all
}

// portEnd is a connection to a port, as the end of a tunnel.
type portEnd struct{ conn *net.TCPConn }

func (p *portEnd) In() io.Writer { return p.conn }

func (p *portEnd) CloseIn() error { return p.conn.CloseWrite() }

func (p *portEnd) Outs() []out { return []out{p.conn} }

func (p *portEnd) Resize(*v1.TunnelSize) error { return nil }

// Wait returns at once: the tunnel ends with what the process sends.
func (p *portEnd) Wait() *v1.TunnelEnd { return nil }

func (p *portEnd) Close() { _ = p.conn.Close() }
