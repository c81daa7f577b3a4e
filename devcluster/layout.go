package devcluster

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/devcluster/ports"
	"github.com/mindcoordinator/mind/durable"
)

const (
	kindCoordinator = "coordinator"
	kindAgent       = "agent"
	kindGateway     = "gateway"

	host        = "127.0.0.1"
	defaultHTTP = 8080

	// An address that cannot change may be in use for a moment: by a component that is ending, or by a process between its
	// fork and its exec, which still holds what its parent has closed.
	takesAtMost = 5 * time.Second
)

// layout has the settings that a cluster keeps over restarts: its members, their ports, and the secrets.
type layout struct {
	dir     string
	options Options
	pki     string
	ports   ports.Set // claimed until the cluster ends

	Coordinators []member
	Agents       []member
	GPUs         string
	LogArchive   string `json:",omitempty"`
	// CheckpointArchive is empty in layouts of older versions.
	CheckpointArchive string   `json:",omitempty"`
	DataRoots         []string `json:",omitempty"`
	HTTP              string
	Token             string
	APISecret         string
	GossipKey         []byte
}

// member is a coordinator or an agent.
type member struct {
	ID     string
	GRPC   string
	HTTP   string
	Raft   string `json:",omitempty"`
	Gossip string
}

// spec specifies how to start a component.
type spec struct {
	kind string
	name string
	argv []string
}

// openLayout reads the layout of dir, or creates it, and adapts it to the options and to the free ports.
func openLayout(dir string, o Options) (*layout, error) {
	l, err := readLayout(dir, o)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{l.choosePorts, l.issueCertificates, l.write} {
		if err := step(); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

// readLayout reads the layout of dir, or makes up a new one, and adapts it to the options. Its ports are not claimed.
func readLayout(dir string, o Options) (*layout, error) {
	l := &layout{dir: dir, options: o, pki: filepath.Join(dir, "pki")}
	found, err := l.read()
	switch {
	case err != nil:
		return nil, err
	case !found:
		l.Token, l.APISecret, l.GossipKey = "mind_"+secret(24), secret(24), newGossipKey()
		for i := range cmp.Or(o.Coordinators, 3) {
			l.Coordinators = append(l.Coordinators, member{ID: "c" + strconv.Itoa(i+1)})
		}
	case o.Coordinators != 0 && o.Coordinators != len(l.Coordinators):
		return nil, fmt.Errorf("%s holds a cluster of %d coordinators: start it without --coordinators, or give another --data-dir", dir, len(l.Coordinators))
	}
	l.fitAgents(o)
	if err := chooseArchive(&l.LogArchive, o.LogArchive); err != nil {
		return nil, err
	}
	if o.CheckpointArchive == "" && l.CheckpointArchive == "" {
		o.CheckpointArchive = filepath.Join(dir, "checkpoints")
	}
	if err := chooseArchive(&l.CheckpointArchive, o.CheckpointArchive); err != nil {
		return nil, err
	}
	if err := l.chooseDataRoots(o.DataRoots); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *layout) write() error {
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(layoutFile(l.dir), text, 0o600); err != nil {
		return fmt.Errorf("writing the layout of the cluster: %w", err)
	}
	return nil
}

// close releases the ports for other clusters.
func (l *layout) close() { l.ports.Close() }

// fitAgents sets the agents: the ones in the options, or those of the last start, or two with eight GPUs each.
func (l *layout) fitAgents(o Options) {
	n := max(o.Agents, 0)
	if o.Agents == 0 {
		n = len(l.Agents)
		if l.GPUs == "" {
			n = 2
		}
	}
	l.Agents = l.Agents[:min(len(l.Agents), n)]
	for i := len(l.Agents); i < n; i++ {
		l.Agents = append(l.Agents, member{ID: "n" + strconv.Itoa(i+1)})
	}
	if o.GPUs != "" {
		l.GPUs = o.GPUs
	}
	if l.GPUs == "" {
		l.GPUs = "8xH100"
	}
}

// chooseArchive takes a directory, which it creates, or the URL of an archive. Without either it keeps that of the last
// start.
func chooseArchive(into *string, address string) error {
	if address == "" {
		return nil
	}
	url, err := archive.Local(address)
	if err != nil {
		return err
	}
	if url != address {
		if err := os.MkdirAll(address, 0o750); err != nil {
			return fmt.Errorf("making the folder of an archive: %w", err)
		}
	}
	if err := archive.Check(url); err != nil {
		return err
	}
	*into = url
	return nil
}

// chooseDataRoots takes existing directories. Without any it keeps the ones of the last start.
func (l *layout) chooseDataRoots(dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	l.DataRoots = nil
	for _, dir := range dirs {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return fmt.Errorf("folder of data: %w", err)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		l.DataRoots = append(l.DataRoots, dir)
	}
	return nil
}

// dataRoots returns the directories of local data.
func (l *layout) dataRoots() []string {
	if len(l.DataRoots) > 0 {
		return l.DataRoots
	}
	roots := []string{os.TempDir()}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		roots = append(roots, home)
	}
	if here, err := os.Getwd(); err == nil && here != "/" {
		roots = append(roots, here)
	}
	slices.Sort(roots)
	return slices.Compact(roots)
}

func secret(bytes int) string { return base64.RawURLEncoding.EncodeToString(random(bytes)) }

func newGossipKey() []byte { return random(32) }

func random(bytes int) []byte {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return b
}

// choosePorts keeps the ports that are free and replaces the others. A coordinator's Raft address is part of the replicated
// state, so it cannot change.
func (l *layout) choosePorts() (err error) {
	p := &l.ports
	defer p.Release()
	if l.HTTP, err = gatewayAddr(p, l.options.HTTP, l.HTTP); err != nil {
		return err
	}
	for i := range l.Coordinators {
		m := &l.Coordinators[i]
		if m.Raft == "" {
			m.Raft, err = p.Find(host, false)
		} else if err = p.Await(m.Raft, false, takesAtMost); err != nil {
			err = fmt.Errorf("the Raft address of %s is in use, and a coordinator cannot change it: free it, or give another --data-dir (%w)", m.ID, err)
		}
		if err != nil {
			return err
		}
	}
	for _, members := range [][]member{l.Coordinators, l.Agents} {
		for i := range members {
			m := &members[i]
			if m.GRPC, err = p.Keep(m.GRPC, host, false); err != nil {
				return err
			}
			if m.HTTP, err = p.Keep(m.HTTP, host, false); err != nil {
				return err
			}
			if m.Gossip, err = p.Keep(m.Gossip, host, true); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *layout) config(name string) string { return filepath.Join(l.dir, "config", name+".yaml") }

// components lists the components in the order of starting.
func (l *layout) components() []spec {
	var all []spec
	add := func(kind, name string) {
		all = append(all, spec{kind: kind, name: name, argv: []string{l.options.Executable, kind, "--config", l.config(name)}})
	}
	for _, m := range l.Coordinators {
		add(kindCoordinator, m.ID)
	}
	for _, m := range l.Agents {
		add(kindAgent, m.ID)
	}
	add(kindGateway, kindGateway)
	return all
}

// url returns the gateway's URL for clients on this machine.
func (l *layout) url() string {
	h, port, err := net.SplitHostPort(l.HTTP)
	if err != nil {
		return "http://" + l.HTTP
	}
	if ip := net.ParseIP(h); h == "" || (ip != nil && ip.IsUnspecified()) {
		h = host
	}
	return "http://" + net.JoinHostPort(h, port)
}

// lock locks a file until this process ends, or the returned function is called.
func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}
