package devcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/durable"
)

// Info is the content of dev.json.
type Info struct {
	Gateway      GatewayInfo       `json:"gateway"`
	Token        string            `json:"token"`
	CACert       string            `json:"ca_cert"`
	Coordinators []CoordinatorInfo `json:"coordinators"`
	Agents       []AgentInfo       `json:"agents"`
	// Operator has the certificate that `mind raft` uses.
	Operator OperatorInfo `json:"operator"`
	// Pid is the process id of the supervisor.
	Pid int `json:"pid"`
}

// GatewayInfo has the address and the process of the gateway.
type GatewayInfo struct {
	URL  string   `json:"url"`
	Pid  int      `json:"pid"`
	Argv []string `json:"argv"`
}

// CoordinatorInfo has the addresses and the process of a coordinator.
type CoordinatorInfo struct {
	ID         string   `json:"id"`
	Pid        int      `json:"pid"`
	Argv       []string `json:"argv"`
	GRPCAddr   string   `json:"grpc_addr"`
	HTTPAddr   string   `json:"http_addr"`
	RaftAddr   string   `json:"raft_addr"`
	GossipAddr string   `json:"gossip_addr"`
}

// AgentInfo has the addresses and the process of an agent.
type AgentInfo struct {
	NodeID   string   `json:"node_id"`
	Pid      int      `json:"pid"`
	Argv     []string `json:"argv"`
	GRPCAddr string   `json:"grpc_addr"`
	HTTPAddr string   `json:"http_addr"`
}

// OperatorInfo has the files of an operator's certificate.
type OperatorInfo struct {
	CertFile  string `json:"cert_file"`
	KeyFile   string `json:"key_file"`
	APISecret string `json:"api_secret"`
}

func infoFile(dir string) string { return filepath.Join(dir, "dev.json") }

// ReadInfo reads the dev.json of a data directory.
func ReadInfo(dir string) (Info, error) {
	var info Info
	text, err := os.ReadFile(infoFile(dir))
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return info, fmt.Errorf("%s is damaged: %w; the next start of `mind dev` writes it again", infoFile(dir), err)
	}
	return info, nil
}

func removeInfo(dir string) error {
	if err := os.Remove(infoFile(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Info returns the current addresses and pids.
func (c *Cluster) Info() Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info()
}

func (c *Cluster) info() Info {
	l := c.layout
	operator := l.files(operatorID)
	info := Info{
		Token: l.Token, CACert: operator.CA, Pid: os.Getpid(),
		Operator: OperatorInfo{CertFile: operator.Cert, KeyFile: operator.Key, APISecret: l.APISecret},
		Agents:   []AgentInfo{},
	}
	byName := map[string]*component{}
	for _, p := range c.components {
		byName[p.name] = p
	}
	for _, m := range l.Coordinators {
		p := byName[m.ID]
		info.Coordinators = append(info.Coordinators, CoordinatorInfo{
			ID: m.ID, Pid: p.pid, Argv: p.argv, GRPCAddr: m.GRPC, HTTPAddr: m.HTTP, RaftAddr: m.Raft, GossipAddr: m.Gossip,
		})
	}
	for _, m := range l.Agents {
		p := byName[m.ID]
		info.Agents = append(info.Agents, AgentInfo{NodeID: m.ID, Pid: p.pid, Argv: p.argv, GRPCAddr: m.GRPC, HTTPAddr: m.HTTP})
	}
	p := byName[kindGateway]
	info.Gateway = GatewayInfo{URL: l.url(), Pid: p.pid, Argv: p.argv}
	return info
}

// publish writes dev.json, and from then on its pids are updated.
func (c *Cluster) publish() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.published = true
	return c.writeInfo()
}

func (c *Cluster) writeInfo() error {
	text, err := json.MarshalIndent(c.info(), "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(infoFile(c.dir), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing dev.json: %w", err)
	}
	return nil
}
