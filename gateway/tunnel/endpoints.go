package tunnel

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/tunnel"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/param"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// tunnelQuery are the parameters that all tunnels take.
var tunnelQuery = []openapi.Parameter{
	param.Text("tunnel", "a random name of the client's choice, 16 to 128 letters and digits"),
	param.Number("rank", "the rank; default 0", 0, param.MostInt32),
	param.Flag("resume", "true: go on with the tunnel of this name"),
	param.Number("attempt", "with resume: the attempt in which it was opened", 0, param.MostInt32),
	param.Text("stdout_received", "with resume: how many bytes of stdout the client has"),
	param.Text("stderr_received", "with resume: how many bytes of stderr the client has"),
}

// shellQuery are the parameters of a shell.
var shellQuery = slices.Concat([]openapi.Parameter{
	param.Texts("command", "a word of the command; repeatable; default: sh"),
	param.Flag("terminal", "true: the command gets a terminal"),
	param.Number("rows", "of the terminal", 0, 1<<15-1),
	param.Number("columns", "of the terminal", 0, 1<<15-1),
	param.Text("term", "the kind of the terminal, as in TERM"),
}, tunnelQuery)

// portQuery are the parameters of a connection to a port.
var portQuery = slices.Concat([]openapi.Parameter{param.Number("port", "the port", 1, 1<<16-1)}, tunnelQuery)

// Handlers serve the paths of tunnels.
type Handlers struct{ jobs v1.JobServiceClient }

// New returns handlers that open tunnels at coordinators.
func New(coordinators grpc.ClientConnInterface) *Handlers {
	return &Handlers{jobs: v1.NewJobServiceClient(coordinators)}
}

// Endpoints are those of tunnels: shells in jobs, and connections to their ports.
func (h *Handlers) Endpoints() []rest.Endpoint {
	return []rest.Endpoint{
		{RPC: v1.JobService_StreamJobTunnel_FullMethodName, Serve: h.openShell, Doc: openapi.Operation{Socket: true, Query: shellQuery}},
		{RPC: v1.JobService_StreamJobTunnel_FullMethodName, Variant: "port", Serve: h.openPort, Doc: openapi.Operation{Socket: true, Query: portQuery}},
	}
}

// errDraining is the cause of the end of a tunnel's connection when the gateway shuts down.
var errDraining = &rest.Problem{HTTP: http.StatusServiceUnavailable, Code: "UNAVAILABLE", Message: "this gateway is shutting down: resume", RetryAfter: 1}

// openShell serves the WebSocket of a shell in a job.
func (h *Handlers) openShell(x *rest.Request) error { return h.serve(x, wire.JobShell) }

// openPort serves the WebSocket of a connection to a port of a job.
func (h *Handlers) openPort(x *rest.Request) error { return h.serve(x, wire.JobPort) }

// serve serves the WebSocket of a tunnel. Errors before the tunnel is open are answered in the envelope.
func (h *Handlers) serve(x *rest.Request, read func(url.Values) (*v1.TunnelOpening, []wire.Fault)) error {
	opening, faults := read(x.R.URL.Query())
	if err := h.checkUpgrade(x, faults); err != nil {
		return err
	}
	if len(faults) > 0 {
		return rest.InvalidBody(faults)
	}
	opening.JobId = x.ID()
	s := x.Server
	release, err := x.OpenStream()
	if err != nil {
		return err
	}
	defer release()
	allowed, stop := x.WhileAllowed()
	defer stop()
	ctx, cancel := context.WithCancelCause(allowed)
	defer cancel(nil)
	released := make(chan struct{})
	defer close(released)
	go func() {
		select {
		case <-s.Drained:
			cancel(errDraining)
		case <-released:
		}
	}()
	streaming, end := context.WithCancel(client.WithCall(ctx, client.Call{
		Tenant: x.Caller.Tenant, User: x.Caller.User, Token: x.Caller.Token, RequestID: x.RequestID,
	}))
	defer end()
	stream, first, err := h.openTunnel(x, streaming, end, opening)
	if cause := (*rest.Problem)(nil); errors.As(context.Cause(ctx), &cause) {
		return cause
	}
	if err != nil {
		return err
	}
	x.Code = http.StatusSwitchingProtocols
	x.Mark(x.W.Header())
	// The origin was checked before the tunnel was opened.
	conn, err := websocket.Accept(x.W, x.R, &websocket.AcceptOptions{
		Subprotocols: []string{tunnel.Subprotocol}, InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil // the answer is written; the tunnel ends without a client
	}
	s.Metrics.Streams.Inc()
	defer s.Metrics.Streams.Dec()
	Relay(ctx, conn, stream, first, Config{End: end, Keepalive: s.Timeouts.Keepalive, Explain: func(err error) *tunnel.Error {
		p := x.ProblemOf(err)
		x.NoteDenial(p)
		return &tunnel.Error{Code: p.Code, Message: p.Message}
	}})
	return nil
}

// openTunnel opens the stream of a coordinator, and returns it with its first answer.
func (h *Handlers) openTunnel(x *rest.Request, ctx context.Context, end func(), opening *v1.TunnelOpening) (Stream, *v1.TunnelOutput, error) {
	late := time.AfterFunc(x.Server.Timeouts.Request, end)
	defer late.Stop()
	stream, err := h.jobs.StreamJobTunnel(ctx)
	if err != nil {
		return nil, nil, err
	}
	_ = stream.Send(&v1.StreamJobTunnelRequest{Opening: opening}) // receiving says why not
	first, err := stream.Recv()
	if err != nil && !late.Stop() {
		return nil, nil, &rest.Problem{HTTP: http.StatusGatewayTimeout, Code: "DEADLINE_EXCEEDED", Message: "the node of the job did not answer in time"}
	}
	return stream, first.GetOutput(), err
}

// checkUpgrade refuses a request that is no WebSocket, or that a page of another origin has made: browsers let any page open
// a WebSocket to any host. faults are those of the query.
func (h *Handlers) checkUpgrade(x *rest.Request, faults []wire.Fault) error {
	header := x.R.Header
	key, _ := base64.StdEncoding.DecodeString(header.Get("Sec-WebSocket-Key"))
	upgrade := slices.ContainsFunc(strings.Split(strings.Join(header["Connection"], ","), ","), func(token string) bool {
		return strings.EqualFold(strings.TrimSpace(token), "upgrade")
	})
	// All of it is checked before the command is started, which would run for nobody if the handshake failed.
	if !strings.EqualFold(header.Get("Upgrade"), "websocket") || x.R.ProtoMajor != 1 || !upgrade || header.Get("Sec-WebSocket-Version") != "13" || len(key) != 16 {
		if err := h.mustExist(x); err != nil {
			return err
		}
		// That it has no name either says less than that it is no WebSocket.
		if others := slices.DeleteFunc(faults, func(f wire.Fault) bool { return f.Field == "tunnel" }); len(others) > 0 {
			return rest.InvalidBody(others)
		}
		return &rest.Problem{
			HTTP: http.StatusBadRequest, Code: "INVALID_ARGUMENT",
			Message: "this is a WebSocket of the protocol " + tunnel.Subprotocol + ": `mind exec` speaks it (HTTP/1.1, Upgrade: websocket)",
		}
	}
	for _, origin := range x.R.Header["Origin"] {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, x.R.Host) {
			return &rest.Problem{HTTP: http.StatusForbidden, Code: "CROSS_ORIGIN_DENIED", Message: "a page of another origin made this request"}
		}
	}
	return nil
}

// mustExist refuses a job that is not there for the caller.
func (h *Handlers) mustExist(x *rest.Request) error {
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	_, err = h.jobs.GetJob(ctx, &v1.GetJobRequest{JobId: x.ID()})
	return err
}
