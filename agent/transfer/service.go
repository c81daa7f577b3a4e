package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/agent/checkpoints"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/pki"
)

const (
	// maxStreams limits how many files are sent at a time, readsAtOnce how many reads from the disk are in progress.
	maxStreams  = 256
	readsAtOnce = 8
	// chunk is the number of bytes that are read and sent at a time, filesAtOnce the number of files that one message
	// lists.
	chunk       = 256 << 10
	filesAtOnce = 500
	// allowedFor is how long an answer of the coordinators is cached: each file is a separate call.
	allowedFor = 30 * time.Second
	// maxAllowed limits the number of cached answers.
	maxAllowed = 1024
)

// Config configures a Service.
type Config struct {
	Node        string
	Checkpoints *checkpoints.Keeper
	// Registered asks the coordinators whether this node may serve a checkpoint to a reader, and how the checkpoint was
	// registered.
	Registered func(ctx context.Context, checkpoint, reader string) (*v1.GetServedCheckpointResponse, error)
	// Agree answers questions about agreements whose rank 0 is on this node.
	Agree func(context.Context, *v1.AgreeOnResumeRequest) (*v1.AgreeOnResumeResponse, error)
	// Rate limits the sending in bytes per second; 0: no limit.
	Rate int64
	// Identified: callers have certificates.
	Identified bool
	Log        *slog.Logger
	Metrics    prometheus.Registerer
}

// Service implements the part of PeerService about checkpoints.
type Service struct {
	cfg     Config
	rate    archive.Rate
	streams chan struct{}
	reads   chan struct{}
	sent    prometheus.Counter

	mu      sync.Mutex
	allowed map[question]answer
}

// question is a question to the coordinators.
type question struct{ checkpoint, reader string }

type answer struct {
	of *v1.GetServedCheckpointResponse
	at time.Time
}

// NewService returns the service of a node.
func NewService(cfg Config) *Service {
	s := &Service{
		cfg: cfg, rate: archive.Rate{PerSecond: cfg.Rate}, streams: make(chan struct{}, maxStreams), reads: make(chan struct{}, readsAtOnce),
		allowed: make(map[question]answer),
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mind_checkpoint_served_bytes_total", Help: "Bytes of checkpoints that were sent to other nodes.",
		}),
	}
	cfg.Metrics.MustRegister(s.sent)
	return s
}

// opened opens a checkpoint, if the caller may fetch it.
func (s *Service) opened(ctx context.Context, node, checkpoint string) (*checkpoints.Served, *v1.GetServedCheckpointResponse, error) {
	if err := s.identify(ctx, node); err != nil {
		return nil, nil, err
	}
	of, err := s.registered(ctx, question{checkpoint, node})
	if err != nil {
		return nil, nil, err
	}
	served, err := s.cfg.Checkpoints.Serve(of)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, status.Errorf(codes.NotFound, "its files are gone from node %s", s.cfg.Node)
	case err != nil:
		return nil, nil, status.Errorf(codes.FailedPrecondition, "node %s does not serve it: %v", s.cfg.Node, err)
	}
	return served, of, nil
}

// identify compares the node in a request with the caller's certificate.
func (s *Service) identify(ctx context.Context, node string) error {
	if who, known := pki.PeerIdentity(ctx); s.cfg.Identified && (!known || who.ID != node) {
		return status.Errorf(codes.PermissionDenied, "%s cannot ask for node %s", who, node)
	}
	return nil
}

// registered returns the coordinators' answer, from the cache if it has one.
func (s *Service) registered(ctx context.Context, q question) (*v1.GetServedCheckpointResponse, error) {
	s.mu.Lock()
	known, ok := s.allowed[q]
	s.mu.Unlock()
	if ok && time.Since(known.at) < allowedFor {
		return known.of, nil
	}
	of, err := s.cfg.Registered(ctx, q.checkpoint, q.reader)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.allowed) >= maxAllowed {
		clear(s.allowed)
	}
	s.allowed[q] = answer{of, time.Now()}
	return of, nil
}

// ListCheckpoint lists the files of a checkpoint.
func (s *Service) ListCheckpoint(req *v1.ListCheckpointRequest, stream grpc.ServerStreamingServer[v1.ListCheckpointResponse]) error {
	ctx := stream.Context()
	served, of, err := s.opened(ctx, req.GetNodeId(), req.GetCheckpointId())
	if err != nil {
		return err
	}
	defer served.Close()
	if p := of.GetCheckpoint(); p.GetPath() != req.GetPath() || p.GetManifestDigest() != req.GetManifestDigest() {
		return status.Errorf(codes.NotFound, "node %s has registered checkpoint %s with another path or manifest", s.cfg.Node, req.GetCheckpointId())
	}
	if err := take(ctx, s.reads); err != nil {
		return err
	}
	defer func() { <-s.reads }()
	part := &v1.ListCheckpointResponse{}
	err = served.List(ctx, req.GetManifestDigest(), func(f *v1.CheckpointFile) error {
		part.Files = append(part.Files, f)
		if len(part.GetFiles()) < filesAtOnce {
			return nil
		}
		full := part
		part = &v1.ListCheckpointResponse{}
		return stream.Send(full)
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return status.Errorf(codes.FailedPrecondition, "node %s does not serve it: %v", s.cfg.Node, err)
	}
	s.cfg.Log.Info("another node fetches a checkpoint", "checkpoint", req.GetCheckpointId(), "path", req.GetPath(), "node", req.GetNodeId())
	return stream.Send(part)
}

// ReadCheckpoint sends a file of a checkpoint.
func (s *Service) ReadCheckpoint(req *v1.ReadCheckpointRequest, stream grpc.ServerStreamingServer[v1.ReadCheckpointResponse]) error {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return status.Errorf(codes.ResourceExhausted, "node %s is serving %d files already", s.cfg.Node, maxStreams)
	}
	ctx := stream.Context()
	served, _, err := s.opened(ctx, req.GetNodeId(), req.GetCheckpointId())
	if err != nil {
		return err
	}
	defer served.Close()
	file, unchanged, err := served.Open(req.GetPath(), req.GetVersion())
	if err != nil {
		return status.Errorf(codes.FailedPrecondition, "node %s does not serve %q: %v", s.cfg.Node, req.GetPath(), err)
	}
	defer file.Close()
	if _, err := file.Seek(req.GetOffset(), io.SeekStart); err != nil {
		return status.Errorf(codes.InvalidArgument, "read from %d: %v", req.GetOffset(), err)
	}
	buf := make([]byte, chunk)
	for {
		n, err := s.read(ctx, file, buf)
		if n > 0 {
			if err := stream.Send(&v1.ReadCheckpointResponse{Data: buf[:n]}); err != nil {
				return err
			}
			s.sent.Add(float64(n))
		}
		switch {
		case errors.Is(err, io.EOF):
			if err := unchanged(); err != nil {
				return status.Errorf(codes.FailedPrecondition, "node %s does not serve %q: %v", s.cfg.Node, req.GetPath(), err)
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// read waits for its turn and reads a piece of a file.
func (s *Service) read(ctx context.Context, file io.Reader, buf []byte) (int, error) {
	if err := take(ctx, s.reads); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(file, buf)
	<-s.reads
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	if n == 0 {
		return 0, err
	}
	return n, errors.Join(s.rate.Wait(ctx, n), err)
}

func take(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// AgreeOnResume answers a question about an agreement on a checkpoint.
func (s *Service) AgreeOnResume(ctx context.Context, req *v1.AgreeOnResumeRequest) (*v1.AgreeOnResumeResponse, error) {
	if err := s.identify(ctx, req.GetNodeId()); err != nil {
		return nil, err
	}
	return s.cfg.Agree(ctx, req)
}
