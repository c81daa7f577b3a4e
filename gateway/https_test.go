package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/pki"
)

// A running gateway uses the certificate in its files, and the last valid one while they contain none.
func TestHTTPS_followsItsCertificate(t *testing.T) {
	dir := t.TempDir()
	ca, err := pki.CreateCA(dir)
	require.NoError(t, err)
	files, err := ca.Issue(dir, "web", pki.RoleGateway)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	authority, err := pki.ReadCertificates(ca.CertFile)
	require.NoError(t, err)
	roots.AddCert(authority[0])

	config := gatewaytest.Config(gatewaytest.NewCoordinator(t))
	config.HTTPCertFile, config.HTTPKeyFile = files.Cert, files.Key
	config.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var log gatewaytest.Log
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- gateway.Run(ctx, config) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	url := "https://" + config.Listener.Addr().String() + "/health"
	// ask opens a new connection, and returns the serial number of the server's certificate.
	ask := func() string {
		transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
		resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Get(url)
		require.NoError(t, err)
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		require.Equal(t, 200, resp.StatusCode)
		return resp.TLS.PeerCertificates[0].SerialNumber.String()
	}
	first := ask()
	_, err = ca.Issue(dir, "web", pki.RoleGateway)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return ask() != first }, time.Minute, 20*time.Millisecond)
	second := ask()
	require.NoError(t, os.WriteFile(files.Key, []byte("broken"), 0o600))
	require.Eventually(t, func() bool {
		require.Equal(t, second, ask())
		return bytes.Contains(log.Bytes(), []byte("changed and is not valid"))
	}, time.Minute, 20*time.Millisecond)

	plain, err := http.Get("http://" + config.Listener.Addr().String() + "/health")
	require.NoError(t, err)
	defer plain.Body.Close()
	require.Equal(t, 400, plain.StatusCode, "plain HTTP at a door for HTTPS")
}
