package devcluster

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/durable"
)

// Older versions wrote cluster.json without a sync, so a power cut could leave it empty. Its contents are also in the
// configurations of the components and in dev.json.

// layoutFile returns the path of the file with the layout.
func layoutFile(dir string) string { return filepath.Join(dir, "cluster.json") }

// read loads the layout of an earlier start; found is false if there was none.
func (l *layout) read() (found bool, err error) {
	file := layoutFile(l.dir)
	text, err := os.ReadFile(file)
	why := "it is damaged"
	switch {
	case err == nil:
		kept := *l
		if json.Unmarshal(text, &kept) == nil && len(kept.Coordinators) > 0 {
			*l = kept
			return true, nil
		}
		if len(text) == 0 {
			why = "it is empty"
		}
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("reading the layout of the cluster: %w", err)
	case len(l.coordinatorDirs()) == 0:
		return false, nil
	default:
		why = "it is missing"
	}
	from, err := l.recover()
	if err != nil {
		return false, fmt.Errorf("%s describes the members of the cluster, and %s; it cannot be restored from other files either: %w. Nothing was removed: the jobs are in %s. "+
			"Restore a copy of the file, or give another --data-dir to start with an empty cluster", file, why, err, filepath.Join(l.dir, "coordinators"))
	}
	if err := durable.Rename(file, file+".damaged"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("renaming the damaged layout of the cluster: %w", err)
	}
	l.options.Logger.Warn("the file that describes the members of the cluster was restored from other files", "file", file, "why", why, "from", from)
	return true, nil
}

// coordinatorDirs returns the ids of the coordinators with a data directory.
func (l *layout) coordinatorDirs() (ids []string) {
	entries, _ := os.ReadDir(filepath.Join(l.dir, "coordinators")) // a missing directory counts as empty
	for _, e := range entries {
		// A disk may have been prepared for a coordinator that has not been started yet.
		if held, err := os.ReadDir(filepath.Join(l.dir, "coordinators", e.Name())); e.IsDir() && (err != nil || len(held) > 0) {
			ids = append(ids, e.Name())
		}
	}
	return ids
}

// recover restores the layout from other files, and returns their names. If it cannot, it changes nothing.
func (l *layout) recover() (from string, err error) {
	made := layout{dir: l.dir, options: l.options, pki: l.pki}
	from = filepath.Join(l.dir, "config")
	if err = made.fromConfigs(); err != nil {
		configs := err
		made = layout{dir: l.dir, options: l.options, pki: l.pki}
		from = infoFile(l.dir)
		if err = made.fromInfo(); err != nil {
			return "", fmt.Errorf("%w; %w", configs, err)
		}
	}
	for _, id := range l.coordinatorDirs() {
		at := slices.IndexFunc(made.Coordinators, func(m member) bool { return m.ID == id })
		// A coordinator cannot change its address, which is part of the replicated state.
		if at < 0 || made.Coordinators[at].Raft == "" {
			return "", fmt.Errorf("%s does not have the Raft address of coordinator %s", from, id)
		}
	}
	byNumber := func(a, b member) int {
		if c := len(a.ID) - len(b.ID); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	}
	slices.SortFunc(made.Coordinators, byNumber)
	slices.SortFunc(made.Agents, byNumber)
	*l = made
	return from, nil
}

// fromConfigs reads the configurations of the components.
func (l *layout) fromConfigs() error {
	names, err := filepath.Glob(l.config("*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		var c struct {
			ID         string `yaml:"id"`
			NodeID     string `yaml:"node_id"`
			GRPC       string `yaml:"grpc_addr"`
			HTTP       string `yaml:"http_addr"`
			Raft       string `yaml:"raft_addr"`
			Gossip     string `yaml:"gossip_addr"`
			APISecret  string `yaml:"api_secret"`
			GossipKey  string `yaml:"gossip_key"`
			GPUs       string `yaml:"gpus"`
			LogArchive string `yaml:"log_archive"`
			Saved      string `yaml:"checkpoint_archive"`
			Tokens     []struct {
				Token string `yaml:"token"`
			} `yaml:"tokens"`
		}
		text, err := os.ReadFile(name)
		if err == nil {
			err = yaml.Unmarshal(text, &c)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m := member{ID: c.ID + c.NodeID, GRPC: c.GRPC, HTTP: c.HTTP, Raft: c.Raft, Gossip: c.Gossip}
		switch component := strings.TrimSuffix(filepath.Base(name), ".yaml"); {
		case component == kindGateway && len(c.Tokens) > 0:
			l.HTTP, l.Token, l.CheckpointArchive = c.HTTP, c.Tokens[0].Token, c.Saved
			continue
		case c.ID == component && c.Raft != "":
			l.Coordinators = append(l.Coordinators, m)
			l.APISecret = c.APISecret
		case c.NodeID == component:
			l.Agents = append(l.Agents, m)
			if l.GPUs == "" || l.GPUs == "none" {
				l.GPUs = c.GPUs // only the first agent has "auto"
			}
		default:
			return fmt.Errorf("%s is damaged, too", name)
		}
		l.LogArchive = c.LogArchive
		if l.GossipKey, err = base64.StdEncoding.DecodeString(c.GossipKey); err != nil {
			return fmt.Errorf("%s: gossip_key: %w", name, err)
		}
	}
	if len(l.Coordinators) == 0 || l.Token == "" {
		return fmt.Errorf("%s does not have the configurations of all components", filepath.Join(l.dir, "config"))
	}
	return nil
}

// fromInfo reads dev.json, which remains if a cluster was not stopped. The file lacks the gossip key, so a new one is
// made.
func (l *layout) fromInfo() error {
	info, err := ReadInfo(l.dir)
	if err != nil {
		return err
	}
	if len(info.Coordinators) == 0 || info.Token == "" || info.Operator.APISecret == "" {
		return fmt.Errorf("%s is damaged, too", infoFile(l.dir))
	}
	l.Token, l.APISecret, l.GossipKey = info.Token, info.Operator.APISecret, newGossipKey()
	if u, err := url.Parse(info.Gateway.URL); err == nil {
		l.HTTP = u.Host
	}
	for _, c := range info.Coordinators {
		l.Coordinators = append(l.Coordinators, member{ID: c.ID, GRPC: c.GRPCAddr, HTTP: c.HTTPAddr, Raft: c.RaftAddr, Gossip: c.GossipAddr})
	}
	for _, a := range info.Agents {
		l.Agents = append(l.Agents, member{ID: a.NodeID, GRPC: a.GRPCAddr, HTTP: a.HTTPAddr})
	}
	if len(l.Agents) > 0 {
		l.GPUs = "8xH100" // unknown: use the default
	}
	return nil
}
