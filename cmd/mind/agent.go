package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/agent"
	"github.com/mindcoordinator/mind/agent/shim/embedded"
	"github.com/mindcoordinator/mind/cmd/mind/settings"
)

func newAgent() *cobra.Command {
	c := &agent.Config{Version: version}
	return component{
		name:  "agent",
		short: "Run the agent of one GPU node",
		example: `  mind agent --config /etc/mind/agent.yaml
  mind agent --config agent.yaml --labels zone=a,rack=7`,
		keys:      agentKeys(c),
		identity:  func() string { return c.NodeID },
		gcPercent: littleState,
		run: func(ctx context.Context, logger *slog.Logger) error {
			c.Logger = logger
			if c.ShimExecutable == "" {
				var err error
				if c.ShimExecutable, err = embedded.Install(filepath.Join(c.DataDir, "bin")); err != nil {
					logger.Warn("tasks are started by mind itself, which takes longer", "error", err)
				}
			}
			return agent.Run(ctx, *c)
		},
	}.command()
}

func agentKeys(c *agent.Config) []settings.Key {
	return []settings.Key{
		{Name: "node_id", Into: &c.NodeID, Help: "name of the node in the cluster; the certificate carries the same; required"},
		{Name: "data_dir", Into: &c.DataDir, Help: "folder of the tasks, their logs and their outputs; required"},
		{Name: "coordinators", Into: &c.Coordinators, Help: "gRPC addresses of coordinators; required"},
		{Name: "grpc_addr", Into: &c.GRPCAddr, Help: "host:port where coordinators fetch logs and metrics of tasks; default 127.0.0.1 and any port"},
		{Name: "grpc_advertise", Into: &c.GRPCAdvertise, Help: "where coordinators reach grpc_addr; default: the bound address"},
		{Name: "http_addr", Into: &c.HTTPAddr, Help: "host:port of /metrics, /health and /health/ready; default: none"},
		{Name: "http_advertise", Into: &c.HTTPAdvertise, Help: "where others reach http_addr; default: the bound address"},
		{Name: "gossip_addr", Into: &c.GossipAddr, Help: "host:port (TCP and UDP) of gossip; default: no gossip"},
		{Name: "gossip_advertise", Into: &c.GossipAdvertise, Help: "where others reach gossip_addr; default: gossip_addr"},
		{Name: "gossip_key", Into: (*base64Key)(&c.GossipKey), Secret: true, Help: "key of gossip: 16, 24 or 32 bytes in base64; default: not encrypted"},
		{Name: "gossip_join", Into: &c.GossipJoin, Help: "gossip addresses to begin with"},
		{Name: "gpus", Into: &c.GPUs, Help: "auto (what NVML or nvidia-smi finds), none, or a simulated set such as 8xH100 or 4xA100,2xH100; default auto"},
		{Name: "cpus", Into: &c.CPUs, Help: "CPUs that the node offers; default: those of the machine, 64 with simulated GPUs"},
		{Name: "memory_mb", Into: &c.MemMB, Help: "memory that the node offers, in MiB; default: that of the machine, 524288 with simulated GPUs"},
		{Name: "labels", Into: &c.Labels, Help: "labels for the node selectors of jobs"},
		{Name: "hostname", Into: &c.Hostname, Help: "name of the machine; default: what the machine says"},
		{Name: "cert_file", Into: &c.TLS.Cert, Help: "certificate (PEM); with key_file and ca_file: mutual TLS on every link"},
		{Name: "key_file", Into: &c.TLS.Key, Help: "key of the certificate (PEM)"},
		{Name: "ca_file", Into: &c.TLS.CA, Help: "certificate of the authority (PEM)"},
		{Name: "stop_tasks_on_exit", Into: &c.StopTasksOnExit, Help: "stop all tasks when the agent stops; default false: they run on, and the next agent adopts them"},
		{Name: "stop_grace", Into: &c.StopGrace, Help: "grace period of stop_tasks_on_exit; default 2s"},
		{Name: "max_launches", Into: &c.MaxLaunches, Help: "tasks launched at the same time; default 16"},
		{Name: "spare_shims", Into: &c.SpareShims, Help: "shims started ahead of the next tasks; negative: none; default 4"},
		{Name: "shim_executable", Into: &c.ShimExecutable, Help: "program that is started as the shim; default: the one inside of mind, else mind itself"},
		{Name: "keep_tasks", Into: &c.KeepTasks, Help: "ended tasks whose logs and metrics are kept; default 1000"},
		{Name: "keep_tasks_for", Into: &c.KeepTasksFor, Help: "how long they are kept; default 168h"},
		{Name: "keep_outputs_for", Into: &c.KeepOutputsFor, Help: "how long outputs and checkpoints below data_dir are kept after their last change, such as 720h; those that hold a registered checkpoint stay; default: for ever"},
		{Name: "log_bytes", Into: &c.LogBytes, Help: "bytes of the log of one task, beyond which its oldest part is removed; default 1073741824"},
		{Name: "metrics_bytes", Into: &c.MetricsBytes, Help: "bytes of the metrics file of one task that are read, from its beginning; default 268435456"},
		{Name: "events_bytes", Into: &c.EventsBytes, Help: "bytes of the events file of one task that are read, from its beginning; default 16777216"},
		{Name: "log_archive", Into: &c.LogArchive.URL, Help: "where logs and metrics of tasks are shipped to, file:///DIR or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION&path_style=true; default: nowhere"},
		{Name: "log_archive_flush", Into: &c.LogArchive.Flush, Help: "age at which lines are shipped although their segment is not full; negative: never; default 30s"},
		{Name: "log_archive_rate", Into: &c.LogArchive.Rate, Help: "bytes a second to the log archive at most; default: no bound"},
		{Name: "log_archive_wait", Into: &c.LogArchive.Wait, Help: "how long the logs of an ended task are kept, past keep_tasks and keep_tasks_for, for an archive that does not take them; default 24h"},
		{Name: "log_archive_key_id", Into: &c.LogArchive.Access.KeyID, Help: "key id of the bucket of log_archive; default: AWS_ACCESS_KEY_ID"},
		{Name: "log_archive_secret", Into: &c.LogArchive.Access.Secret, Secret: true, Help: "secret of the bucket of log_archive; default: AWS_SECRET_ACCESS_KEY"},
		{Name: "log_archive_ca_file", Into: &c.LogArchive.Access.CAFile, Help: "authority (PEM) of the endpoint of log_archive; default: those of the machine"},
		{Name: "data_cache_dir", Into: &c.Data.CacheDir, Help: "folder of the data that was fetched for jobs; default datacache in data_dir"},
		{Name: "data_cache_bytes", Into: &c.Data.CacheBytes, Help: "bytes of data_cache_dir, beyond which the least recently used goes; default 107374182400"},
		{Name: "data_roots", Into: &c.Data.Roots, Help: "folders in which local data sources and models must lie; default: none, only what the tenant's own jobs wrote below data_dir"},
		{Name: "data_hosts", Into: &c.Data.Hosts, Help: "hosts that data may be fetched from: names, *.SUFFIX, addresses, networks, or * for all; default: all but this machine and link-local addresses"},
		{Name: "data_hub_url", Into: &c.Data.HubURL, Help: "where hf:// sources are, and models that jobs name without saying where; default https://huggingface.co, for hf:// alone"},
		{Name: "data_hub_token", Into: &c.Data.HubToken, Secret: true, Help: "token for the Hugging Face hub, of jobs that bring no HF_TOKEN; with it, models that jobs name without saying where are taken to be there; default: none"},
		{Name: "data_s3_endpoint", Into: &c.Data.S3.Endpoint, Help: "URL of the object store of s3:// data sources; default: Amazon's"},
		{Name: "data_s3_region", Into: &c.Data.S3.Region, Help: "region of the object store of s3:// data sources; default: AWS_REGION"},
		{Name: "data_s3_path_style", Into: &c.Data.S3.PathStyle, Help: "name buckets in the path, not the host; default false"},
		{Name: "data_s3_key_id", Into: &c.Data.S3.KeyID, Help: "key id for s3:// data sources of jobs that bring none; default: AWS_ACCESS_KEY_ID"},
		{Name: "data_s3_secret", Into: &c.Data.S3.Secret, Secret: true, Help: "secret of data_s3_key_id; default: AWS_SECRET_ACCESS_KEY"},
		{Name: "data_s3_ca_file", Into: &c.Data.S3.CAFile, Help: "authority (PEM) of data_s3_endpoint; default: those of the machine"},
		{Name: "scaidrive_url", Into: &c.Data.DriveURL, Help: "where scaidrive:// data sources are; default: nowhere"},
		{Name: "scaiatlas_url", Into: &c.Data.AtlasURL, Help: "where scaiatlas:// data sources are; default: nowhere"},
		{Name: "cgroup_parent", Into: &c.CgroupParent, Help: "cgroup v2 folder, delegated to the agent, for a group per task; default: none"},
	}
}
