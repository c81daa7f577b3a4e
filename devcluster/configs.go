package devcluster

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/durable"
)

// keys are the keys of a component's configuration file, as listed by `mind coordinator --help` and the like. A test of
// the command reads every file that is written here.
type keys map[string]any

// writeConfigs writes DIR/config/NAME.yaml for each component.
func (l *layout) writeConfigs() error {
	if err := durable.MkdirAll(filepath.Join(l.dir, "config"), 0o700); err != nil {
		return fmt.Errorf("making the folder of configurations: %w", err)
	}
	if err := l.writeWebhookSecret(); err != nil {
		return err
	}
	var grpc, gossip []string
	var peers []keys
	for _, m := range l.Coordinators {
		grpc = append(grpc, m.GRPC)
		gossip = append(gossip, m.Gossip)
		peers = append(peers, keys{"id": m.ID, "raft_addr": m.Raft, "grpc_addr": m.GRPC, "http_addr": m.HTTP})
	}
	all := map[string]keys{}
	for _, m := range l.Coordinators {
		all[m.ID] = keys{
			"id": m.ID, "data_dir": filepath.Join(l.dir, "coordinators", m.ID),
			"grpc_addr": m.GRPC, "http_addr": m.HTTP, "raft_addr": m.Raft, "gossip_addr": m.Gossip,
			"peers": peers, "api_secret": l.APISecret,
			"gossip_key": base64.StdEncoding.EncodeToString(l.GossipKey), "gossip_join": gossip,
			// Receivers on this machine may be notified.
			"webhook_secret_file": l.webhookSecret(), "webhook_hosts": []string{"localhost", "127.0.0.1", "::1"},
		}
	}
	for i, m := range l.Agents {
		gpus := l.GPUs
		if gpus == "auto" && i > 0 {
			gpus = "none"
		}
		all[m.ID] = keys{
			"node_id": m.ID, "data_dir": filepath.Join(l.dir, "agents", m.ID), "coordinators": grpc,
			"grpc_addr": m.GRPC, "http_addr": m.HTTP, "gossip_addr": m.Gossip,
			"gossip_key": base64.StdEncoding.EncodeToString(l.GossipKey), "gossip_join": gossip,
			"gpus": gpus, "stop_tasks_on_exit": true,
			// Its user decides how full the machine may be.
			"min_free_disk": "0",
			// Jobs may do what their user may: it is the user's own machine.
			"task_paths": []string{"/"},
			// The other agents' directories are on this machine, too.
			"private_dirs": []string{l.dir},
			// All components are on this machine, and the data may be, too.
			"data_hosts": []string{"*"}, "data_roots": l.dataRoots(),
		}
	}
	all[kindGateway] = keys{
		"http_addr": l.HTTP, "coordinators": grpc, "api_secret": l.APISecret,
		"tokens": []keys{{
			"token": l.Token, "tenant": "default", "user": "dev",
			"permissions": []string{"scaimind:view", "scaimind:manage", "scaimind:cluster_admin", "scaimind:evaluate", "scaicore:admin", "mind:operator"},
		}},
		"shutdown_timeout": "2s",
		// Its one tenant is the user, who may watch as much as the machine can.
		"max_streams_per_tenant": -1,
	}
	if origins := l.options.CORSOrigins; len(origins) > 0 {
		all[kindGateway]["cors_origins"] = origins
	}
	if l.options.Isolation != "" {
		for _, m := range l.Agents {
			all[m.ID]["isolation"] = l.options.Isolation
			if l.options.Isolation == "full" {
				// Its jobs are for the user, who has their files there, too.
				all[m.ID]["mounts"] = []string{os.TempDir() + ":" + os.TempDir() + ":rw"}
			}
		}
	}
	if l.LogArchive != "" {
		for _, m := range append(slices.Clone(l.Coordinators), l.Agents...) {
			all[m.ID]["log_archive"] = l.LogArchive
		}
	}
	if l.CheckpointArchive != "" {
		all[kindGateway]["checkpoint_archive"] = l.CheckpointArchive
		for _, m := range l.Agents {
			all[m.ID]["checkpoint_archive"] = l.CheckpointArchive
		}
	}
	for name, config := range all {
		files := l.files(name)
		config["cert_file"], config["key_file"], config["ca_file"] = files.Cert, files.Key, files.CA
		text, err := yaml.Marshal(config)
		if err != nil {
			return err
		}
		if err := durable.WriteFile(l.config(name), text, 0o600); err != nil {
			return fmt.Errorf("writing the configuration of %s: %w", name, err)
		}
	}
	return nil
}

// webhookSecret is the file of the secret that signs notices of decisions. It outlives restarts, as receivers have a copy.
func (l *layout) webhookSecret() string { return filepath.Join(l.dir, "webhook-secret") }

func (l *layout) writeWebhookSecret() error {
	if _, err := os.Stat(l.webhookSecret()); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := "whsec_" + base64.StdEncoding.EncodeToString(random(32)) + "\n"
	if err := durable.WriteFile(l.webhookSecret(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the secret of webhooks: %w", err)
	}
	return nil
}
