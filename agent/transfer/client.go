package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	saved "github.com/mindcoordinator/mind/archive/checkpoints"
)

const (
	// listTime limits the wait for a part of a list: the other node examines all files first.
	listTime = time.Minute
	// connectTime limits the wait for a connection, aliveTime the wait for the answer to a keepalive on an open one.
	connectTime = 5 * time.Second
	aliveTime   = 5 * time.Second
	// agreeTime limits one question about an agreement. It is longer than the other agent waits before it answers.
	agreeTime = 30 * time.Second
	// maxFiles limits the files of a checkpoint.
	maxFiles = 100_000
	// idleTime is how long a connection without a call stays open.
	idleTime = time.Minute
)

// Client calls other agents. Its connections close when nothing uses them.
type Client struct {
	node        string
	dial        grpc.DialOption
	credentials func(node string) credentials.TransportCredentials

	mu    sync.Mutex
	conns map[string]*conn // by node
}

type conn struct {
	*grpc.ClientConn
	addr string
}

// NewClient returns a client of a node, without connections.
func NewClient(node string, dial grpc.DialOption, credentials func(node string) credentials.TransportCredentials) *Client {
	return &Client{node: node, dial: dial, credentials: credentials, conns: make(map[string]*conn)}
}

// Close closes all connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for node, at := range c.conns {
		_ = at.Close()
		delete(c.conns, node)
	}
}

// to returns the service of another node.
func (c *Client) to(node, addr string) (v1.PeerServiceClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.conns[node]
	if at != nil && at.addr != addr {
		_ = at.Close()
		at = nil
	}
	if at == nil {
		pause := backoff.DefaultConfig
		pause.MaxDelay = connectTime
		fresh, err := grpc.NewClient("passthrough:///"+addr, c.dial, grpc.WithTransportCredentials(c.credentials(node)), grpc.WithIdleTimeout(idleTime),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: client.KeepaliveTime, Timeout: aliveTime}),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: connectTime}))
		if err != nil {
			return nil, fmt.Errorf("dial node %s: %w", node, err)
		}
		at = &conn{fresh, addr}
		c.conns[node] = at
	}
	return v1.NewPeerServiceClient(at), nil
}

// Checkpoint returns a checkpoint on the node that registered it.
func (c *Client) Checkpoint(point *v1.ResumePoint) *sources.Remote {
	r := &remote{client: c, point: point}
	return &sources.Remote{Files: r.files}
}

// remote is a checkpoint on another node.
type remote struct {
	client *Client
	point  *v1.ResumePoint
}

// files lists the files of the checkpoint. It lists the target of a link as a copy in its place.
func (r *remote) files(ctx context.Context) ([]sources.RemoteFile, error) {
	listed, err := r.list(ctx)
	if err != nil {
		return nil, r.explain(err)
	}
	if !observe.Listed(listed, r.point.GetManifestDigest()) {
		return nil, sources.Refused("the files that node %s has listed are not the registered ones", r.point.GetNodeId())
	}
	versions := make(map[string]string, len(listed))
	files := make([]saved.File, 0, len(listed))
	for _, f := range listed {
		one := saved.File{Path: f.GetPath(), Size: f.GetSize(), Mode: f.GetMode(), Link: f.GetLink()}
		if one.Link != "" {
			one.Size, one.Mode = 0, 0
		}
		files = append(files, one)
		versions[f.GetPath()] = f.GetVersion()
	}
	slices.SortFunc(files, func(a, b saved.File) int { return strings.Compare(a.Path, b.Path) })
	if err := saved.Check(files); err != nil {
		return nil, sources.Refused("node %s has listed files that cannot be: %v", r.point.GetNodeId(), err)
	}
	var all []sources.RemoteFile
	for _, f := range saved.Flat(files) {
		path, version := f.File.Path, versions[f.File.Path]
		all = append(all, sources.RemoteFile{
			Name: f.Path, Size: f.File.Size, Version: version,
			Open: func(ctx context.Context, offset int64) (io.ReadCloser, error) {
				return r.open(ctx, path, version, offset)
			},
		})
	}
	return all, nil
}

func (r *remote) list(ctx context.Context) (files []*v1.CheckpointFile, err error) {
	peer, err := r.client.to(r.point.GetNodeId(), r.point.GetNodeAddr())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(listTime, cancel)
	defer late.Stop()
	stream, err := peer.ListCheckpoint(ctx, &v1.ListCheckpointRequest{
		NodeId: r.client.node, CheckpointId: r.point.GetCheckpointId(), Path: r.point.GetPath(), ManifestDigest: r.point.GetManifestDigest(),
	})
	if err != nil {
		return nil, err
	}
	for {
		part, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return files, nil
		case err != nil:
			return nil, err
		case len(files)+len(part.GetFiles()) > maxFiles:
			return nil, sources.Refused("node %s has listed more than %d files", r.point.GetNodeId(), maxFiles)
		}
		late.Reset(listTime)
		files = append(files, part.GetFiles()...)
	}
}

func (r *remote) open(ctx context.Context, path, version string, offset int64) (io.ReadCloser, error) {
	peer, err := r.client.to(r.point.GetNodeId(), r.point.GetNodeAddr())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := peer.ReadCheckpoint(ctx, &v1.ReadCheckpointRequest{
		NodeId: r.client.node, CheckpointId: r.point.GetCheckpointId(), Path: path, Version: version, Offset: offset,
	})
	if err != nil {
		cancel()
		return nil, r.explain(err)
	}
	return &reader{remote: r, stream: stream, cancel: cancel}, nil
}

// reader reads a file of a remote checkpoint.
type reader struct {
	remote *remote
	stream grpc.ServerStreamingClient[v1.ReadCheckpointResponse]
	cancel context.CancelFunc
	rest   []byte
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		part, err := r.stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, r.remote.explain(err)
		}
		r.rest = part.GetData()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.cancel()
	return nil
}

// explain returns an error of sources.Refused for an error that another try does not fix.
func (r *remote) explain(err error) error {
	node := r.point.GetNodeId()
	switch s := status.Convert(err); s.Code() {
	case codes.NotFound, codes.PermissionDenied, codes.FailedPrecondition, codes.InvalidArgument, codes.Unauthenticated:
		return sources.Refused("node %s does not give it: %s", node, s.Message())
	case codes.Unimplemented:
		return sources.Refused("node %s does not give it: its agent is of an earlier version", node)
	case codes.Canceled:
		return fmt.Errorf("node %s, which has it, does not answer", node)
	case codes.Unknown:
		return err // not an error of a call
	default:
		return fmt.Errorf("node %s, which has it, cannot be read: %s", node, cmp.Or(s.Message(), s.Code().String()))
	}
}

// Agree asks the agent of rank 0.
func (c *Client) Agree(ctx context.Context, with *v1.TaskPeer, req *v1.AgreeOnResumeRequest) (*v1.AgreeOnResumeResponse, error) {
	peer, err := c.to(with.GetNodeId(), with.GetGrpcAddr())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, agreeTime)
	defer cancel()
	req.NodeId = c.node
	return peer.AgreeOnResume(ctx, req)
}
