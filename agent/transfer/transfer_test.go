package transfer

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/agent/checkpoints"
	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/safedir"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/pki"
)

// others implements the methods of PeerService that are not in this package.
type others struct {
	v1.UnimplementedPeerServiceServer
}

// server serves the registered checkpoint c1 of a job.
type server struct {
	others
	*Service
	t    *testing.T
	data string
	// of is the coordinators' answer about c1 for n2; nil: nothing is registered.
	of     *v1.GetServedCheckpointResponse
	client *Client
	point  *v1.ResumePoint
}

func (s *server) registered(_ context.Context, checkpoint, reader string) (*v1.GetServedCheckpointResponse, error) {
	if s.of == nil || checkpoint != "c1" || reader != "n2" {
		return nil, status.Error(codes.NotFound, "it is not registered")
	}
	return s.of, nil
}

func serve(t *testing.T, change func(*Config)) *server {
	return serveAs(t, insecure.NewCredentials(), func(string) credentials.TransportCredentials { return insecure.NewCredentials() }, change)
}

// serveAs makes a server with the credentials ours, and a client with those of callers.
func serveAs(t *testing.T, ours credentials.TransportCredentials, callers func(node string) credentials.TransportCredentials, change func(*Config)) *server {
	s := &server{t: t, data: t.TempDir()}
	config := Config{
		Node: "n1", Registered: s.registered, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Checkpoints: checkpoints.New(checkpoints.Config{DataDir: s.data, Private: private.New(s.data), Outputs: outputs.New(s.data), Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}),
	}
	if change != nil {
		change(&config)
	}
	s.Service = NewService(config)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.Creds(ours))
	v1.RegisterPeerServiceServer(server, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	s.client = NewClient("n2", grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}), callers)
	t.Cleanup(s.client.Close)
	at := filepath.Join(s.data, "outputs", "acme", "job_1.checkpoints", "c-7")
	s.write(filepath.Join(at, "weights"), strings.Repeat("w", 1<<20))
	s.write(filepath.Join(at, "rank", "0"), "optimizer")
	require.NoError(t, os.Symlink("rank", filepath.Join(at, "latest")))
	s.register(at, listener.Addr().String())
	return s
}

func (s *server) write(name, text string) {
	s.t.Helper()
	require.NoError(s.t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(s.t, os.WriteFile(name, []byte(text), 0o600))
}

// register registers the directory at a path.
func (s *server) register(at, addr string) {
	s.t.Helper()
	dir, err := safedir.Open(at)
	require.NoError(s.t, err)
	defer dir.Close()
	digest, err := observe.Digest(s.t.Context(), dir)
	require.NoError(s.t, err)
	s.point = &v1.ResumePoint{CheckpointId: "c1", Path: at, ManifestDigest: digest, NodeId: "n1", NodeAddr: addr}
	clear(s.allowed) // only tests register a checkpoint again
	s.of = &v1.GetServedCheckpointResponse{Checkpoint: s.point, TenantId: "acme", JobId: "job_1"}
}

func (s *server) files() (map[string]sources.RemoteFile, error) {
	list, err := s.client.Checkpoint(s.point).Files(s.t.Context())
	files := map[string]sources.RemoteFile{}
	for _, f := range list {
		files[f.Name] = f
	}
	return files, err
}

func (s *server) read(f sources.RemoteFile, offset int64) (string, error) {
	body, err := f.Open(s.t.Context(), offset)
	require.NoError(s.t, err)
	defer body.Close()
	text, err := io.ReadAll(body)
	return string(text), err
}

func (s *server) refuses(why string) {
	s.t.Helper()
	_, err := s.files()
	require.ErrorContains(s.t, err, why)
	require.True(s.t, sources.Missing(err), "trying again does not help")
}

func TestFetch_aCheckpointOfAnotherNode(t *testing.T) {
	s := serve(t, nil)
	files, err := s.files()
	require.NoError(t, err)
	require.Len(t, files, 3, "with a copy in the place of the link")
	for name, want := range map[string]string{"weights": strings.Repeat("w", 1<<20), "rank/0": "optimizer", "latest/0": "optimizer"} {
		text, err := s.read(files[name], 0)
		require.NoError(t, err)
		require.Equal(t, want, text, name)
	}
	text, err := s.read(files["rank/0"], 5)
	require.NoError(t, err)
	require.Equal(t, "izer", text, "from where the last fetch stopped")
}

func TestServe_onlyWhatIsRegistered(t *testing.T) {
	s := serve(t, nil)
	listed, err := s.files()
	require.NoError(t, err)
	other := s.point
	s.point = &v1.ResumePoint{CheckpointId: "c2", Path: other.GetPath(), ManifestDigest: other.GetManifestDigest(), NodeId: "n1", NodeAddr: other.GetNodeAddr()}
	s.refuses("not registered")
	s.point = &v1.ResumePoint{CheckpointId: "c1", Path: filepath.Dir(other.GetPath()), ManifestDigest: other.GetManifestDigest(), NodeId: "n1", NodeAddr: other.GetNodeAddr()}
	s.refuses("another path")
	s.point = other
	for _, path := range []string{"../c-7/weights", "latest", "latest/0", "/etc/passwd", ""} {
		_, err := (&remote{s.client, s.point}).read(t, path, listed["weights"].Version)
		require.Error(t, err, path)
	}
	s.write(filepath.Join(s.point.GetPath(), "more"), "x")
	s.refuses("not those that were registered")
}

func (r *remote) read(t *testing.T, path, version string) (string, error) {
	body, err := r.open(t.Context(), path, version, 0)
	require.NoError(t, err)
	defer body.Close()
	text, err := io.ReadAll(body)
	return string(text), err
}

func TestServe_onlyFromTheDirectoriesOfTheJob(t *testing.T) {
	s := serve(t, nil)
	addr := s.point.GetNodeAddr()
	elsewhere := filepath.Join(t.TempDir(), "c-8")
	s.write(filepath.Join(elsewhere, "weights"), "secret")
	s.register(elsewhere, addr)
	s.refuses(checkpoints.ErrNotServed.Error())

	link := filepath.Join(s.data, "outputs", "acme", "job_1.checkpoints", "c-8")
	require.NoError(t, os.Symlink(elsewhere, link))
	s.register(link, addr)
	s.refuses(checkpoints.ErrNotServed.Error())

	out := filepath.Join(s.data, "outputs", "acme", "job_1.checkpoints", "c-9")
	s.write(filepath.Join(out, "weights"), "w")
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "weights"), filepath.Join(out, "stolen")))
	s.register(out, addr)
	s.refuses("leads out of the checkpoint")

	hidden := filepath.Join(s.data, "tasks", "job_1", "checkpoints", "c-1")
	s.write(filepath.Join(hidden, "weights"), "w")
	s.register(hidden, addr)
	s.refuses(checkpoints.ErrNotServed.Error())
}

func TestServe_aFileThatChangesIsNotSent(t *testing.T) {
	s := serve(t, nil)
	files, err := s.files()
	require.NoError(t, err)
	name := filepath.Join(s.point.GetPath(), "rank", "0")
	s.write(name, "OPTIMIZER")
	require.NoError(t, os.Chtimes(name, time.Time{}, time.Unix(1, 0)))
	_, err = s.read(files["rank/0"], 0)
	require.ErrorContains(t, err, "changed since it was listed")
	require.True(t, sources.Missing(err))
}

func TestServe_whoCallsMustBeWhoAsks(t *testing.T) {
	s := serve(t, func(c *Config) { c.Identified = true })
	s.refuses("cannot ask for node n2")
}

// With certificates an agent can only ask in its own name, and only the node that was asked can answer.
func TestServe_withCertificates(t *testing.T) {
	dir := t.TempDir()
	ca, err := pki.CreateCA(dir)
	require.NoError(t, err)
	of := func(id string) *pki.Keys {
		files, err := ca.Issue(dir, id, pki.RoleAgent)
		require.NoError(t, err)
		keys, err := pki.Open(files, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		return keys
	}
	start := func(server, caller string) *server {
		agent := of(caller).Client(pki.RoleAgent)
		return serveAs(t, credentials.NewTLS(of(server).Server(pki.RoleAgent)),
			func(node string) credentials.TransportCredentials { return agent.Named(node).Credentials() }, func(c *Config) { c.Identified = true })
	}
	files, err := start("n1", "n2").files()
	require.NoError(t, err)
	require.Len(t, files, 3)
	start("n1", "n3").refuses("cannot ask for node n2")
	_, err = start("n4", "n2").files()
	require.ErrorContains(t, err, "cannot be read", "another node answers")
}

// impostor lists files that are not the registered ones.
type impostor struct {
	*server
}

func (i impostor) ListCheckpoint(_ *v1.ListCheckpointRequest, stream grpc.ServerStreamingServer[v1.ListCheckpointResponse]) error {
	return stream.Send(&v1.ListCheckpointResponse{Files: []*v1.CheckpointFile{{Path: "weights", Size: 3, Version: "1"}}})
}

func TestFetch_theListIsComparedWithTheManifest(t *testing.T) {
	s := serve(t, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	v1.RegisterPeerServiceServer(server, impostor{s})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	s.point.NodeAddr = listener.Addr().String()
	s.refuses("are not the registered ones")
}

// A fetch from a node that is gone fails with an error that is retried, and in the end the next checkpoint is used.
func TestFetch_aNodeThatIsGone(t *testing.T) {
	s := serve(t, nil)
	s.point.NodeAddr = "127.0.0.1:1"
	_, err := s.files()
	require.ErrorContains(t, err, "node n1, which has it, cannot be read")
	require.True(t, sources.Broken(err))
	require.False(t, sources.Missing(err))
}
