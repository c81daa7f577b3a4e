package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/gateway/bounds"
	"github.com/mindcoordinator/mind/gateway/metrics"
	"github.com/mindcoordinator/mind/pki"
	"github.com/mindcoordinator/mind/profiling"
)

// Run serves until ctx ends, then lets requests in flight finish, closes event streams and returns nil. It returns an error
// if it cannot start, or if its listener fails.
func Run(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return fmt.Errorf("gateway configuration: %w", err)
	}
	config = config.withDefaults()
	s, err := newServer(config)
	if err != nil {
		return fmt.Errorf("start gateway: %w", err)
	}
	defer s.close()
	listener := config.Listener
	if listener == nil {
		if listener, err = net.Listen("tcp", config.HTTPAddr); err != nil {
			return fmt.Errorf("start gateway: %w", err)
		}
	}
	listener = bounds.Listen(listener, bounds.Config{
		Most: config.Bounds.Connections, Encrypted: config.HTTPCertFile != "", Log: s.Log, Registry: config.Registry,
	})
	if config.HTTPCertFile != "" {
		secure, keys, err := pki.HTTPS(config.HTTPCertFile, config.HTTPKeyFile, s.Log)
		if err != nil {
			return errors.Join(fmt.Errorf("the gateway's HTTPS: %w", err), listener.Close())
		}
		config.Registry.MustRegister(metrics.CertificateEnd("https", keys))
		secure.NextProtos = []string{"h2", "http/1.1"}
		listener = tls.NewListener(listener, secure)
	}
	server := &http.Server{
		Handler:           profiling.Beside(s.router()),
		ReadHeaderTimeout: config.Timeouts.Header,
		ReadTimeout:       config.Timeouts.Body,
		WriteTimeout:      config.Timeouts.MaxRequest + time.Minute, // event streams lift it
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		Protocols:         protocols(listener.Addr()),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	var loops sync.WaitGroup
	background, enough := context.WithCancel(context.WithoutCancel(ctx))
	loops.Go(func() { s.Denied.Report(background, s.reports()) })
	loops.Go(func() { s.ready.Run(background) })
	loops.Go(func() { s.uploads.Collect(background) })
	defer func() { enough(); loops.Wait() }()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	s.Log.LogAttrs(ctx, slog.LevelInfo, "gateway is serving", slog.String("http_addr", listener.Addr().String()))
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	return s.drain(server, failed)
}

// Handler returns a handler that answers as Run does, for a program with a listener of its own. Nothing runs in the background:
// denied requests are not reported, and uploads are not collected. release frees the resources that it holds.
func Handler(config Config) (handler http.Handler, release func(), err error) {
	s, err := newServer(config.withDefaults())
	if err != nil {
		return nil, nil, err
	}
	return s.router(), s.close, nil
}

// maxStreams bounds the requests that one HTTP/2 connection has open at a time, event streams included.
const maxStreams = 250

// protocols returns what a listener speaks. Clients choose HTTP/2 while they set up TLS. Without TLS it is for programs on
// this machine that know of it (h2c with prior knowledge), such as a proxy: other proxies in between may not understand it.
func protocols(addr net.Addr) *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	tcp, ok := addr.(*net.TCPAddr)
	p.SetUnencryptedHTTP2(ok && tcp.IP.IsLoopback())
	return p
}

// lastWrites limits how long the job cache may take at shutdown to write what is queued.
const lastWrites = time.Second

// close releases what the server holds besides its listener.
func (s *server) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWrites)
	defer cancel()
	s.listed.Close(ctx)
	if s.exchanger != nil {
		s.exchanger.Close()
	}
	s.hub.Close() // its streams are on the client's connections
	_ = s.client.Close()
}

// drain ends the gateway: probes report it as not ready, streams are closed, requests in flight finish, and requests that
// exceed the time limit are cut.
func (s *server) drain(server *http.Server, failed <-chan error) error {
	s.draining.Store(true)
	close(s.Drained)
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeouts.Shutdown)
	defer cancel()
	err := server.Shutdown(ctx)
	if err != nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "requests were cut at shutdown", slog.Any("error", err))
		_ = server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	s.Streams.Wait()
	return nil
}
