package yardstick

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/devcluster/ports"
)

// Cluster is three raft peers, each a process: this program run again with the argument "yardstick-peer".
type Cluster struct {
	dir      string
	children []*exec.Cmd
	urls     []string
	leader   string
	ports    ports.Set
}

// StartCluster starts three peers with their files under a new directory in parent and waits for a leader.
func StartCluster(ctx context.Context, parent string) (*Cluster, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "yardstick-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	addrs := make([]string, 6) // the addresses for peers, then for clients
	for i := range addrs {
		if addrs[i], err = c.ports.Find("127.0.0.1", false); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	c.ports.Release()
	var peers []string
	for i := range 3 {
		peers = append(peers, fmt.Sprintf("p%d=%s", i, addrs[i]))
	}
	for i := range 3 {
		home := filepath.Join(dir, fmt.Sprintf("p%d", i))
		if err := os.MkdirAll(home, 0o700); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
		httpAddr := addrs[3+i]
		cmd := exec.Command(self, "yardstick-peer", fmt.Sprintf("p%d", i), home, addrs[i], httpAddr, strings.Join(peers, ","))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
		c.children = append(c.children, cmd)
		c.urls = append(c.urls, "http://"+httpAddr)
	}
	for ctx.Err() == nil {
		for _, url := range c.urls {
			if resp, err := http.Get(url + "/leader"); err == nil {
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(body) == "true" {
					c.leader = url
					return c, nil
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil, errors.Join(fmt.Errorf("waiting for a raft leader: %w", ctx.Err()), c.Stop())
}

// Apply makes the leader propose commands itself.
func (c *Cluster) Apply(proposers, seconds, pack int) (Result, error) {
	var res Result
	resp, err := http.Post(fmt.Sprintf("%s/bench?proposers=%d&seconds=%d&pack=%d", c.leader, proposers, seconds, pack), "", nil)
	if err != nil {
		return res, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&res)
	return res, err
}

// ApplyURL returns the URL of a handler that takes a JSON body and answers after it was applied.
func (c *Cluster) ApplyURL() string { return c.leader + "/apply" }

// Stop kills the peers and removes their files.
func (c *Cluster) Stop() error {
	for _, cmd := range c.children {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	c.ports.Close()
	return os.RemoveAll(c.dir)
}
