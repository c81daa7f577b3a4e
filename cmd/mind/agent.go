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
		file:      &c.File,
		identity:  func() string { return c.NodeID },
		gcPercent: littleState,
		run: func(ctx context.Context, logger *slog.Logger) error {
			c.Logger = logger
			if c.ShimExecutable == "" {
				var err error
				if c.ShimExecutable, err = embedded.Install(filepath.Join(c.DataDir, "bin")); err != nil {
					logger.Warn("mind itself starts tasks, which takes longer", "error", err)
				}
			}
			return agent.Run(ctx, *c)
		},
	}.command()
}

func agentKeys(c *agent.Config) []settings.Key {
	return []settings.Key{
		{Name: "node_id", Into: &c.NodeID, Help: "name of the node, as in its certificate; required"},
		{Name: "data_dir", Into: &c.DataDir, Help: "directory for tasks, their logs and their outputs; required"},
		{Name: "coordinators", Into: &c.Coordinators, Help: "gRPC addresses of coordinators; required"},
		{Name: "grpc_addr", Into: &c.GRPCAddr, Help: "host:port where coordinators fetch logs and metrics of tasks; default 127.0.0.1 and any port"},
		{Name: "grpc_advertise", Into: &c.GRPCAdvertise, Help: "address at which coordinators reach grpc_addr; default: the bound address"},
		{Name: "http_addr", Into: &c.HTTPAddr, Help: "host:port of /metrics, /health and /health/ready; default: none"},
		{Name: "http_advertise", Into: &c.HTTPAdvertise, Help: "address at which others reach http_addr; default: the bound address"},
		{Name: "gossip_addr", Into: &c.GossipAddr, Help: "host:port (TCP and UDP) of gossip; default: no gossip"},
		{Name: "gossip_advertise", Into: &c.GossipAdvertise, Help: "address at which others reach gossip_addr; default: gossip_addr"},
		{Name: "gossip_key", Into: (*base64Key)(&c.GossipKey), Secret: true, Help: "gossip encryption key: 16, 24 or 32 bytes in base64; default: not encrypted"},
		{Name: "gossip_join", Into: &c.GossipJoin, Help: "gossip addresses of other members, for joining"},
		{Name: "gpus", Into: &c.GPUs, Help: "auto (detected by NVML or nvidia-smi), none, or a simulated set such as 8xH100 or 4xA100,2xH100; default auto"},
		{Name: "cpus", Into: &c.CPUs, Help: "CPUs that the node offers; default: those of the machine, 64 with simulated GPUs"},
		{Name: "memory_mb", Into: &c.MemMB, Help: "memory that the node offers, in MiB; default: that of the machine, 524288 with simulated GPUs"},
		{Name: "labels", Into: &c.Labels, Help: "labels for the node selectors of jobs"},
		{Name: "hostname", Into: &c.Hostname, Help: "host name to report; default: that of the machine"},
		{Name: "cert_file", Into: &c.TLS.Cert, Help: "certificate (PEM); with key_file and ca_file: mutual TLS on every link"},
		{Name: "key_file", Into: &c.TLS.Key, Help: "private key of the certificate (PEM)"},
		{Name: "ca_file", Into: &c.TLS.CA, Help: "certificate of the cluster's authority (PEM)"},
		{Name: "stop_tasks_on_exit", Into: &c.StopTasksOnExit, Help: "stop all tasks when the agent stops; default false: they keep running, and the next agent adopts them"},
		{Name: "stop_grace", Into: &c.StopGrace, Help: "grace period of stop_tasks_on_exit; default 2s"},
		{Name: "max_launches", Into: &c.MaxLaunches, Help: "tasks launched at the same time, at most; default 16"},
		{Name: "spare_shims", Into: &c.SpareShims, Help: "idle shims kept ready for the next tasks; negative: none; default 4"},
		{Name: "shim_executable", Into: &c.ShimExecutable, Help: "program to start as the shim; default: the one embedded in mind, or mind itself"},
		{Name: "keep_tasks", Into: &c.KeepTasks, Help: "number of ended tasks whose logs and metrics are kept; default 1000"},
		{Name: "keep_tasks_for", Into: &c.KeepTasksFor, Help: "how long logs and metrics of ended tasks are kept; default 168h"},
		{Name: "keep_outputs_for", Into: &c.KeepOutputsFor, Help: "how long outputs and checkpoints below data_dir are kept after their last change, such as 720h; registered checkpoints are always kept; default: forever"},
		{Name: "log_bytes", Into: &c.LogBytes, Help: "size limit of one task's log in bytes; the oldest part is removed first; default 1073741824"},
		{Name: "metrics_bytes", Into: &c.MetricsBytes, Help: "bytes read from the start of one task's metrics file, at most; default 268435456"},
		{Name: "events_bytes", Into: &c.EventsBytes, Help: "bytes read from the start of one task's events file, at most; default 16777216"},
		{Name: "min_free_disk", Into: watermark{&c.MinFreeDisk}, Help: "what must be free on the disk of data_dir for a new task: a percentage, such as 5%, also of its inodes, or a size, such as 10GiB; 0: only what a task needs to start; default: the smaller of 5% and 10GiB, and 5% of the inodes"},
		{Name: "job_disk_mb", Into: &c.JobDiskMB, Help: "what one job may take on the disk of data_dir with its outputs, checkpoints, metrics and upload, in MiB; needs a file system with project quotas, an agent of root, and isolation or users; default: no limit"},
		{Name: "log_archive", Into: &c.LogArchive.URL, Help: "archive to which logs and metrics of tasks are shipped, file:///DIR or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION&path_style=true; default: none"},
		{Name: "log_archive_flush", Into: &c.LogArchive.Flush, Help: "age at which the lines of a partly filled segment are shipped; negative: never; default 30s"},
		{Name: "log_archive_rate", Into: &c.LogArchive.Rate, Help: "upload limit to the log archive in bytes per second; default: no limit"},
		{Name: "log_archive_wait", Into: &c.LogArchive.Wait, Help: "how long logs that could not be archived are kept beyond keep_tasks and keep_tasks_for; default 24h"},
		{Name: "log_archive_key_id", Into: &c.LogArchive.Access.KeyID, Help: "access key id for the bucket of log_archive; default: AWS_ACCESS_KEY_ID"},
		{Name: "log_archive_secret", Into: &c.LogArchive.Access.Secret, Secret: true, Help: "secret key for the bucket of log_archive; default: AWS_SECRET_ACCESS_KEY"},
		{Name: "log_archive_ca_file", Into: &c.LogArchive.Access.CAFile, Help: "CA certificates (PEM) that verify the endpoint of log_archive; default: those of the machine"},
		{Name: "checkpoint_archive", Into: &c.CheckpointArchive.URL, Help: "archive to which checkpoints are uploaded, and from which other nodes fetch them, file:///DIR or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION&path_style=true; default: none"},
		{Name: "checkpoint_archive_rate", Into: &c.CheckpointArchive.Rate, Help: "upload limit to the checkpoint archive in bytes per second; default: no limit"},
		{Name: "checkpoint_archive_key_id", Into: &c.CheckpointArchive.Access.KeyID, Help: "access key id for the bucket of checkpoint_archive; default: AWS_ACCESS_KEY_ID"},
		{Name: "checkpoint_archive_secret", Into: &c.CheckpointArchive.Access.Secret, Secret: true, Help: "secret key for the bucket of checkpoint_archive; default: AWS_SECRET_ACCESS_KEY"},
		{Name: "checkpoint_archive_ca_file", Into: &c.CheckpointArchive.Access.CAFile, Help: "CA certificates (PEM) that verify the endpoint of checkpoint_archive; default: those of the machine"},
		{Name: "checkpoint_serve_rate", Into: &c.CheckpointServeRate, Help: "limit in bytes per second of what other nodes fetch of this node's checkpoints; default: no limit"},
		{Name: "data_cache_dir", Into: &c.Data.CacheDir, Help: "directory for data fetched for jobs; default datacache in data_dir"},
		{Name: "data_cache_bytes", Into: &c.Data.CacheBytes, Help: "size limit of data_cache_dir in bytes; the least recently used data is removed first; default 107374182400"},
		{Name: "data_roots", Into: &c.Data.Roots, Help: "directories from which jobs may use local data and models; default: none, only what the tenant's own jobs wrote below data_dir"},
		{Name: "private_dirs", Into: &c.PrivateDirs, Help: "more directories in which no job may work, and from which none may register checkpoints or read data, as in data_dir; default: none"},
		{Name: "data_hosts", Into: &c.Data.Hosts, Help: "hosts from which data may be fetched: names, *.SUFFIX, addresses, networks, or * for all; default: all except this machine; link-local addresses and metadata services of clouds are never asked"},
		{Name: "data_hub_url", Into: &c.Data.HubURL, Help: "hub for hf:// sources, and for models named without a source; default https://huggingface.co, for hf:// only"},
		{Name: "data_hub_token", Into: &c.Data.HubToken, Secret: true, Help: "Hugging Face token for jobs without an HF_TOKEN of their own; if set, models named without a source are fetched from the hub; default: none"},
		{Name: "data_s3_endpoint", Into: &c.Data.S3.Endpoint, Help: "URL of the object store for s3:// data sources; default: Amazon's"},
		{Name: "data_s3_region", Into: &c.Data.S3.Region, Help: "region of the object store for s3:// data sources; default: AWS_REGION"},
		{Name: "data_s3_path_style", Into: &c.Data.S3.PathStyle, Help: "put bucket names into the path, not the host name; default false"},
		{Name: "data_s3_key_id", Into: &c.Data.S3.KeyID, Help: "access key id for s3:// data sources of jobs without their own; default: none, such requests are anonymous"},
		{Name: "data_s3_secret", Into: &c.Data.S3.Secret, Secret: true, Help: "secret key for data_s3_key_id; default: none"},
		{Name: "data_s3_ca_file", Into: &c.Data.S3.CAFile, Help: "CA certificates (PEM) that verify data_s3_endpoint; default: those of the machine"},
		{Name: "scaidrive_url", Into: &c.Data.DriveURL, Help: "URL of the service for scaidrive:// data sources; default: none"},
		{Name: "scaiatlas_url", Into: &c.Data.AtlasURL, Help: "URL of the service for scaiatlas:// data sources; default: none"},
		{Name: "isolation", Into: &c.Isolation, Help: "how far jobs are kept apart: none; cgroup: each task is a control group, whose end leaves no process, behind walls; or full: it also has namespaces, with a view of the machine of its own; default: cgroup where cgroup v2 can be used, and a warning where it cannot"},
		{Name: "users", Into: &c.Users, Help: "users of the system as which the tasks of tenants run, by tenant: a name, or UID:GID; needs an agent that runs as root; default: that of the agent"},
		{Name: "default_user", Into: &c.DefaultUser, Help: "user of the system as which the tasks of tenants without an entry in users run; default: that of the agent, or, with users, such tenants run nothing here"},
		{Name: "min_uid", Into: &c.MinUID, Help: "lowest user id that tasks may have; default 1000"},
		{Name: "task_paths", Into: &c.TaskPaths, Help: "directories in which jobs may work and write, beside their own, such as /scratch; needs isolation; default: all but those of the system (/usr, /etc, /var and so on), which they read"},
		{Name: "devices", Into: &c.Devices, Help: "devices, or directories of some, that jobs may open beside the usual ones and the GPUs of their lease, such as /dev/kvm; needs isolation; default: none"},
		{Name: "mounts", Into: &c.Mounts, Help: "directories and files of the machine that jobs have at isolation full, each SOURCE:TARGET:ro or SOURCE:TARGET:rw, such as /datasets:/datasets:ro; default: none beside those in which jobs work"},
		{Name: "mount_roots", Into: &c.MountRoots, Help: "directories of which jobs may mount parts at isolation full (--mount), each perhaps with :ro, such as /datasets:ro; default: none, jobs mount nothing"},
		{Name: "shm_mb", Into: &c.ShmMB, Help: "size of /dev/shm of each task at isolation full, in MiB; default: half of the memory that the task asked for, or of the machine's"},
		{Name: "cgroup_parent", Into: &c.CgroupParent, Help: "cgroup v2 directory, delegated to the agent, in which each task gets a group; default: the group of a unit with Delegate=yes, or mind below the root of the groups"},
	}
}
