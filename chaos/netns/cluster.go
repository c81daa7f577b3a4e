package netns

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/pki"
)

// Cluster is a cluster whose members run in separate network namespaces, which have the members' names: c1, n1,
// gateway.
type Cluster struct {
	*procs.Cluster
	*Net
	launched []*exec.Cmd
}

// Gateway is the name of the gateway's namespace.
const Gateway = "gateway"

const (
	grpcPort, httpPort, raftPort, gossipPort = "7001", "7002", "7003", "7004"
	gatewayPort                              = "8080"
)

// Start runs a cluster with its state in dir, and returns when its nodes are ready.
func Start(ctx context.Context, mind, dir string, coordinators, agents int, gpus string) (_ *Cluster, err error) {
	var cs, as []string
	for i := range coordinators {
		cs = append(cs, fmt.Sprintf("c%d", i+1))
	}
	for i := range agents {
		as = append(as, fmt.Sprintf("n%d", i+1))
	}
	n, err := New(append(append(append([]string{}, cs...), as...), Gateway)...)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Net: n}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	info, err := c.configure(mind, dir, cs, as, gpus)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: n.Dial, MaxIdleConnsPerHost: 512, DisableCompression: true}}
	launch := func(p procs.Component) (*exec.Cmd, error) { return c.run(dir, p) }
	for _, list := range [][]procs.Component{info.Coordinators, info.Agents, {info.Gateway}} {
		for i := range list {
			cmd, err := launch(list[i])
			if err != nil {
				return nil, err
			}
			list[i].PID = cmd.Process.Pid
			go func() { _ = cmd.Wait() }() // this reaps the process when it ends
		}
	}
	if c.Cluster, err = procs.Assemble(dir, info, launch, client); err != nil {
		return nil, err
	}
	return c, c.awaitNodes(ctx, agents)
}

func (c *Cluster) run(dir string, p procs.Component) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(dir, "logs", p.Name()+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, procs.Environ(), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Net.Start(p.Name(), cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Name(), err)
	}
	c.launched = append(c.launched, cmd)
	return cmd, nil
}

// configure writes certificates and configuration files, as an operator would for machines.
func (c *Cluster) configure(mind, dir string, cs, as []string, gpus string) (procs.Info, error) {
	info := procs.Info{PID: os.Getpid()}
	folders := []string{"logs", "config", "pki"}
	for _, f := range folders {
		if err := os.MkdirAll(filepath.Join(dir, f), 0o755); err != nil {
			return info, err
		}
	}
	authority, err := pki.CreateCA(filepath.Join(dir, "pki"))
	if err != nil {
		return info, err
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	key, secret := base64.StdEncoding.EncodeToString(random), base64.RawURLEncoding.EncodeToString(random[:18])
	info.Token = "mind_" + secret

	var grpc, gossip []string
	var peers []map[string]any
	at := func(name, port string) string { return c.Addr(name) + ":" + port }
	for _, id := range cs {
		grpc, gossip = append(grpc, at(id, grpcPort)), append(gossip, at(id, gossipPort))
		peers = append(peers, map[string]any{"id": id, "raft_addr": at(id, raftPort), "grpc_addr": at(id, grpcPort), "http_addr": at(id, httpPort)})
	}
	write := func(id, kind, role string, config map[string]any) (procs.Component, error) {
		p := procs.Component{HTTPAddr: at(id, httpPort)}
		files, err := authority.Issue(filepath.Join(dir, "pki"), id, role, c.Addr(id))
		if err != nil {
			return p, err
		}
		config["cert_file"], config["key_file"], config["ca_file"] = files.Cert, files.Key, files.CA
		text, err := yaml.Marshal(config)
		if err != nil {
			return p, err
		}
		file := filepath.Join(dir, "config", id+".yaml")
		p.Argv = []string{mind, kind, "--config", file}
		return p, os.WriteFile(file, text, 0o600)
	}
	for _, id := range cs {
		p, err := write(id, "coordinator", pki.RoleCoordinator, map[string]any{
			"id": id, "data_dir": filepath.Join(dir, "coordinators", id), "grpc_addr": at(id, grpcPort), "http_addr": at(id, httpPort),
			"raft_addr": at(id, raftPort), "gossip_addr": at(id, gossipPort), "peers": peers, "api_secret": secret, "gossip_key": key, "gossip_join": gossip,
		})
		if err != nil {
			return info, err
		}
		p.ID, p.GRPCAddr, p.RaftAddr = id, at(id, grpcPort), at(id, raftPort)
		info.Coordinators = append(info.Coordinators, p)
	}
	for _, id := range as {
		p, err := write(id, "agent", pki.RoleAgent, map[string]any{
			"node_id": id, "data_dir": filepath.Join(dir, "agents", id), "coordinators": grpc, "grpc_addr": at(id, grpcPort), "http_addr": at(id, httpPort),
			"gossip_addr": at(id, gossipPort), "gossip_key": key, "gossip_join": gossip, "gpus": gpus, "stop_tasks_on_exit": true,
		})
		if err != nil {
			return info, err
		}
		p.NodeID = id
		info.Agents = append(info.Agents, p)
	}
	p, err := write(Gateway, "gateway", pki.RoleGateway, map[string]any{
		"http_addr": at(Gateway, gatewayPort), "coordinators": grpc, "api_secret": secret,
		"tokens": []map[string]any{{
			"token": info.Token, "tenant": "default", "user": "chaos",
			"permissions": []string{"scaimind:view", "scaimind:manage", "scaimind:cluster_admin", "scaimind:evaluate"},
		}},
	})
	p.URL, p.HTTPAddr = "http://"+at(Gateway, gatewayPort), at(Gateway, gatewayPort)
	info.Gateway = p
	return info, err
}

func (c *Cluster) awaitNodes(ctx context.Context, agents int) error {
	rest, err := c.REST()
	if err != nil {
		return err
	}
	for {
		nodes, err := rest.Nodes(ctx)
		ready := 0
		for _, n := range nodes {
			if n.State == "READY" {
				ready++
			}
		}
		if err == nil && ready == agents {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d nodes are ready: %w", ready, agents, errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stopWithin is how long Stop waits before it uses SIGKILL.
const stopWithin = 20 * time.Second

// Stop ends the cluster, agents first, and removes the namespaces.
func (c *Cluster) Stop() error {
	errs := []error{c.Heal()}
	if c.Cluster != nil {
		info, err := c.Info()
		errs = append(errs, err)
		for _, list := range [][]procs.Component{{info.Gateway}, info.Agents, info.Coordinators} {
			errs = append(errs, c.end(list))
		}
	} else {
		for _, cmd := range c.launched {
			_ = cmd.Process.Kill()
		}
	}
	return errors.Join(append(errs, c.Close())...)
}

func (c *Cluster) end(list []procs.Component) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	for _, p := range list {
		_ = c.Signal(p, syscall.SIGCONT)
		_ = c.Signal(p, syscall.SIGTERM)
	}
	var errs []error
	for _, p := range list {
		if err := c.WaitGone(ctx, p); err != nil {
			errs = append(errs, err)
			_ = c.Kill(p)
		}
	}
	return errors.Join(errs...)
}
