package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/settings"
	"github.com/mindcoordinator/mind/coordinator"
)

func newCoordinator() *cobra.Command {
	c := &coordinator.Config{}
	return component{
		name:  "coordinator",
		short: "Run one coordinator, a replica of the control plane",
		example: `  mind coordinator --config /etc/mind/c1.yaml
  mind coordinator --config c1.yaml --log-level debug`,
		keys:     coordinatorKeys(c),
		identity: func() string { return c.ID },
		run: func(ctx context.Context, logger *slog.Logger) error {
			c.Logger, c.Program = logger, version
			return coordinator.Run(ctx, *c)
		},
	}.command()
}

func coordinatorKeys(c *coordinator.Config) []settings.Key {
	return []settings.Key{
		{Name: "id", Into: &c.ID, Help: "id of this coordinator, such as c1, as in its certificate; required"},
		{Name: "data_dir", Into: &c.DataDir, Help: "directory for the Raft log and the snapshots; required"},
		{Name: "grpc_addr", Into: &c.GRPCAddr, Help: "host:port for gateways, agents, operators and peers; required"},
		{Name: "http_addr", Into: &c.HTTPAddr, Help: "host:port of /metrics, /health and /health/ready; required"},
		{Name: "raft_addr", Into: &c.RaftAddr, Help: "host:port for Raft between coordinators; required"},
		{Name: "gossip_addr", Into: &c.GossipAddr, Help: "host:port (TCP and UDP) of gossip; default: no gossip"},
		{Name: "grpc_advertise", Into: &c.GRPCAdvertise, Help: "address at which others reach grpc_addr; default: grpc_addr"},
		{Name: "http_advertise", Into: &c.HTTPAdvertise, Help: "address at which others reach http_addr; default: http_addr"},
		{Name: "raft_advertise", Into: &c.RaftAdvertise, Help: "address at which others reach raft_addr; default: raft_addr"},
		{Name: "gossip_advertise", Into: &c.GossipAdvertise, Help: "address at which others reach gossip_addr; default: gossip_addr"},
		{Name: "peers", Into: (*peers)(&c.Peers), Help: "the first voters, including this one; the same on all coordinators: list of {id, raft_addr, grpc_addr, http_addr}; as a flag ID=RAFT/GRPC/HTTP,..."},
		{Name: "join_via", Into: &c.JoinVia, Help: "gRPC addresses of running coordinators of a cluster to join, instead of peers"},
		{Name: "cert_file", Into: &c.CertFile, Help: "certificate (PEM); with key_file and ca_file: mutual TLS on every link"},
		{Name: "key_file", Into: &c.KeyFile, Help: "key of the certificate (PEM)"},
		{Name: "ca_file", Into: &c.CAFile, Help: "certificate of the authority (PEM)"},
		{Name: "api_secret", Into: &c.APISecret, Secret: true, Help: "secret that each call of a gateway or an operator must bring; default: none"},
		{Name: "credentials_key", Into: (*base64Key)(&c.CredentialsKey), Secret: true, Help: "key under which the tokens that jobs fetch their data with are kept, alike on all coordinators: 16 bytes or more in base64; default: derived from api_secret"},
		{Name: "gossip_key", Into: (*base64Key)(&c.GossipKey), Secret: true, Help: "key of gossip: 16, 24 or 32 bytes in base64; default: not encrypted"},
		{Name: "gossip_join", Into: &c.GossipJoin, Help: "gossip addresses to begin with"},
		{Name: "log_archive", Into: &c.LogArchive.URL, Help: "where agents ship logs and metrics of tasks to, read where an agent cannot be reached or has not kept them; as for agents; default: none"},
		{Name: "log_archive_key_id", Into: &c.LogArchive.Access.KeyID, Help: "key id of the bucket, to read; default: AWS_ACCESS_KEY_ID"},
		{Name: "log_archive_secret", Into: &c.LogArchive.Access.Secret, Secret: true, Help: "secret of the bucket; default: AWS_SECRET_ACCESS_KEY"},
		{Name: "log_archive_ca_file", Into: &c.LogArchive.Access.CAFile, Help: "authority (PEM) of the endpoint; default: those of the machine"},
		{Name: "flow_archive", Into: &c.FlowArchive.URL, Help: "archive for the contents of flows, file:///DIR or s3://BUCKET/PREFIX?..., the same on all coordinators; default: none, they stay in the state"},
		{Name: "flow_archive_key_id", Into: &c.FlowArchive.Access.KeyID, Help: "key id of the bucket, to read, write and delete; default: AWS_ACCESS_KEY_ID"},
		{Name: "flow_archive_secret", Into: &c.FlowArchive.Access.Secret, Secret: true, Help: "secret of the bucket; default: AWS_SECRET_ACCESS_KEY"},
		{Name: "flow_archive_ca_file", Into: &c.FlowArchive.Access.CAFile, Help: "authority (PEM) of the endpoint; default: those of the machine"},
		{Name: "webhook_secret_file", Into: &c.Webhooks.SecretFile, Help: "file of the secrets that sign notices of decisions, one a line: 24 to 64 bytes in base64, after whsec_ or not; all of them sign; read again when it changes; the same on all coordinators; default: no notices"},
		{Name: "webhook_hosts", Into: &c.Webhooks.Hosts, Help: "hosts to which notices of decisions may be sent: names, *.SUFFIX, addresses, networks, or * for all public hosts; addresses of private networks and of this machine have to be listed as such; default: none"},
		{Name: "webhook_url", Into: &c.Webhooks.URL, Help: "URL that gets the notices of all Cores that name none; default: none"},
		{Name: "log_store", Into: &c.LogStore, Help: "where the Raft log is kept: wal or boltdb; a log of the other kind is moved at the start; default: wal, but a log that an earlier version wrote stays in boltdb until all coordinators are upgraded"},
		{Name: "raise", Into: &c.Raise, Help: "auto: raise the feature level as soon as all coordinators support the next one; manual: wait for mind raft level raise, so that a downgrade stays possible; default auto"},
		{Name: "raft_heartbeat", Into: &c.Timers.RaftHeartbeat, Help: "silence of a leader before an election, on a machine that keeps up; default 400ms"},
		{Name: "raft_election", Into: &c.Timers.RaftElection, Help: "time of an election before the next, likewise; default 400ms"},
		{Name: "raft_leader_lease", Into: &c.Timers.RaftLeaderLease, Help: "time without a quorum before a leader steps down, likewise; default 400ms"},
		{Name: "raft_timeout_max", Into: &c.Timers.RaftTimeoutMax, Help: "what a coordinator lengthens raft_heartbeat to at most when answers are slow, and the two others by as much; raft_heartbeat itself: they stay; default 16 times raft_heartbeat"},
		{Name: "agent_heartbeat", Into: &c.Timers.AgentHeartbeat, Help: "how often agents renew; default 1s"},
		{Name: "unreachable_after", Into: &c.Timers.UnreachableAfter, Help: "silence of a node before it is shown as unreachable; default 5s"},
		{Name: "leader_wait", Into: &c.Timers.LeaderWait, Help: "how long a call waits for a leader; default 2s"},
		{Name: "shutdown_timeout", Into: &c.Timers.Shutdown, Help: "how long open calls may take to finish at shutdown; default 3s"},
		{Name: "audit_records", Into: &c.Limits.AuditRecords, Help: "number of audit records kept of each kind (jobs, denied calls, all others), 1000 to 10000000; the same on all coordinators; default: unchanged, initially 100000"},
		{Name: "max_placements", Into: &c.Limits.Placements, Help: "placements in one scheduler command, at most; default 512"},
		{Name: "max_entry_bytes", Into: &c.Limits.EntryBytes, Help: "size limit of a log entry in bytes; default 524288"},
	}
}
