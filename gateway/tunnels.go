package gateway

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

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	wiretunnel "github.com/mindcoordinator/mind/api/tunnel"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/tunnel"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// tunnelQuery are the parameters that all tunnels take.
var tunnelQuery = params{
	text("tunnel", "a random name of the client's choice, 16 to 128 letters and digits"),
	number("rank", "the rank; default 0", 0, maxInt32),
	openapi.Parameter{Name: "resume", Text: "true: go on with the tunnel of this name", Schema: object{"type": "boolean"}},
	number("attempt", "with resume: the attempt in which it was opened", 0, maxInt32),
	text("stdout_received", "with resume: how many bytes of stdout the client has"),
	text("stderr_received", "with resume: how many bytes of stderr the client has"),
}

// shellQuery are the parameters of a shell.
var shellQuery = slices.Concat(params{
	texts("command", "a word of the command; repeatable; default: sh"),
	openapi.Parameter{Name: "terminal", Text: "true: the command gets a terminal", Schema: object{"type": "boolean"}},
	number("rows", "of the terminal", 0, 1<<15-1),
	number("columns", "of the terminal", 0, 1<<15-1),
	text("term", "the kind of the terminal, as in TERM"),
}, tunnelQuery)

// portQuery are the parameters of a connection to a port.
var portQuery = slices.Concat(params{number("port", "the port", 1, 1<<16-1)}, tunnelQuery)

// errDraining is the cause of the end of a tunnel's connection when the gateway shuts down.
var errDraining = &problem{http: http.StatusServiceUnavailable, code: "UNAVAILABLE", message: "this gateway is shutting down: resume", retryAfter: 1}

// openShell serves the WebSocket of a shell in a job.
func openShell(x *httpRequest) error { return x.tunnel(wire.JobShell) }

// openPort serves the WebSocket of a connection to a port of a job.
func openPort(x *httpRequest) error { return x.tunnel(wire.JobPort) }

// tunnel serves the WebSocket of a tunnel. Errors before the tunnel is open are answered in the envelope.
func (x *httpRequest) tunnel(read func(url.Values) (*v1.TunnelOpening, []wire.Fault)) error {
	opening, faults := read(x.r.URL.Query())
	if err := x.checkUpgrade(faults); err != nil {
		return err
	}
	if len(faults) > 0 {
		return invalidBody(faults)
	}
	opening.JobId = id(x)
	s := x.server
	release, err := x.openStream()
	if err != nil {
		return err
	}
	defer release()
	allowed, stop := x.whileAllowed()
	defer stop()
	ctx, cancel := context.WithCancelCause(allowed)
	defer cancel(nil)
	released := make(chan struct{})
	defer close(released)
	go func() {
		select {
		case <-s.drained:
			cancel(errDraining)
		case <-released:
		}
	}()
	streaming, end := context.WithCancel(client.WithCall(ctx, client.Call{
		Tenant: x.caller.Tenant, User: x.caller.User, Token: x.caller.Token, RequestID: x.requestID,
	}))
	defer end()
	stream, first, err := x.openTunnel(streaming, end, opening)
	if cause := (*problem)(nil); errors.As(context.Cause(ctx), &cause) {
		return cause
	}
	if err != nil {
		return err
	}
	x.code = http.StatusSwitchingProtocols
	x.mark(x.w.Header())
	// The origin was checked before the tunnel was opened.
	conn, err := websocket.Accept(x.w, x.r, &websocket.AcceptOptions{
		Subprotocols: []string{wiretunnel.Subprotocol}, InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil // the answer is written; the tunnel ends without a client
	}
	s.metrics.Streams.Inc()
	defer s.metrics.Streams.Dec()
	tunnel.Relay(ctx, conn, stream, first, tunnel.Config{End: end, Keepalive: s.config.Timeouts.Keepalive, Explain: func(err error) *wiretunnel.Error {
		p := x.problemOf(err)
		x.noteDenial(p)
		return &wiretunnel.Error{Code: p.code, Message: p.message}
	}})
	return nil
}

// openTunnel opens the stream of a coordinator, and returns it with its first answer.
func (x *httpRequest) openTunnel(ctx context.Context, end func(), opening *v1.TunnelOpening) (tunnel.Stream, *v1.TunnelOutput, error) {
	late := time.AfterFunc(x.server.config.Timeouts.Request, end)
	defer late.Stop()
	stream, err := x.server.jobs.StreamJobTunnel(ctx)
	if err != nil {
		return nil, nil, err
	}
	_ = stream.Send(&v1.StreamJobTunnelRequest{Opening: opening}) // receiving says why not
	first, err := stream.Recv()
	if err != nil && !late.Stop() {
		return nil, nil, &problem{http: http.StatusGatewayTimeout, code: "DEADLINE_EXCEEDED", message: "the node of the job did not answer in time"}
	}
	return stream, first.GetOutput(), err
}

// checkUpgrade refuses a request that is no WebSocket, or that a page of another origin has made: browsers let any page open
// a WebSocket to any host. faults are those of the query.
func (x *httpRequest) checkUpgrade(faults []wire.Fault) error {
	h := x.r.Header
	key, _ := base64.StdEncoding.DecodeString(h.Get("Sec-WebSocket-Key"))
	upgrade := slices.ContainsFunc(strings.Split(strings.Join(h["Connection"], ","), ","), func(token string) bool {
		return strings.EqualFold(strings.TrimSpace(token), "upgrade")
	})
	// All of it is checked before the command is started, which would run for nobody if the handshake failed.
	if !strings.EqualFold(h.Get("Upgrade"), "websocket") || x.r.ProtoMajor != 1 || !upgrade || h.Get("Sec-WebSocket-Version") != "13" || len(key) != 16 {
		if err := x.mustExist(); err != nil {
			return err
		}
		// That it has no name either says less than that it is no WebSocket.
		if others := slices.DeleteFunc(faults, func(f wire.Fault) bool { return f.Field == "tunnel" }); len(others) > 0 {
			return invalidBody(others)
		}
		return &problem{
			http: http.StatusBadRequest, code: "INVALID_ARGUMENT",
			message: "this is a WebSocket of the protocol " + wiretunnel.Subprotocol + ": `mind exec` speaks it (HTTP/1.1, Upgrade: websocket)",
		}
	}
	for _, origin := range x.r.Header["Origin"] {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, x.r.Host) {
			return &problem{http: http.StatusForbidden, code: "CROSS_ORIGIN_DENIED", message: "a page of another origin made this request"}
		}
	}
	return nil
}

// mustExist refuses a job that is not there for the caller.
func (x *httpRequest) mustExist() error {
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	_, err = x.server.jobs.GetJob(ctx, &v1.GetJobRequest{JobId: id(x)})
	return err
}
