// Package s3server starts a real S3 server (Versity's gateway over a directory) for tests. The server is a separate binary,
// built by `make s3-server`, so that it adds nothing to Mind's module; tests that need it are skipped if it was not built.
package s3server

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// The only account of the server, which has one bucket.
const (
	KeyID  = "test-key"
	Secret = "test-secret-of-the-account"
	Bucket = "logs"
)

const longstop = 60 * time.Second

// Server is a running server.
type Server struct {
	// URL is the URL of the endpoint.
	URL string
	// CAFile is the certificate authority of the server.
	CAFile string

	t         testing.TB
	path, dir string
	addr      string
	cert, key string
	process   *exec.Cmd
	output    bytes.Buffer
}

// Start runs a server at an address until the test ends, or skips the test.
// cert and key are its certificate for 127.0.0.1, and ca the file of its
// authority; empty: without TLS.
func Start(t testing.TB, addr, cert, key, ca string) *Server {
	t.Helper()
	path := binary(t)
	s := &Server{t: t, path: path, dir: t.TempDir(), addr: addr, cert: cert, key: key, CAFile: ca}
	s.URL = "http://" + s.addr
	if cert != "" {
		s.URL = "https://" + s.addr
	}
	if err := os.Mkdir(filepath.Join(s.dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "meta"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	t.Cleanup(s.Stop)
	s.makeBucket()
	return s
}

func binary(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	// A test runs in the folder of its package. The source paths in the binary cannot be used: -trimpath shortens them.
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "bin", "tools", "versitygw")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skip("no S3 server: run make s3-server")
	return ""
}

// Restart starts the server again, with the same address and objects.
func (s *Server) Restart() {
	s.t.Helper()
	args := []string{"--port", s.addr, "--access", KeyID, "--secret", Secret, "--quiet"}
	if s.cert != "" {
		args = append(args, "--cert", s.cert, "--key", s.key)
	}
	args = append(args, "posix", "--sidecar", filepath.Join(s.dir, "meta"), filepath.Join(s.dir, "data"))
	s.process = exec.Command(s.path, args...)
	s.output.Reset()
	s.process.Stdout, s.process.Stderr = &s.output, &s.output
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	var err error
	for end := time.Now().Add(longstop); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var resp *http.Response
		if resp, err = client.Get(s.URL); err == nil {
			_ = resp.Body.Close()
			return
		}
	}
	s.Stop()
	s.t.Fatalf("the S3 server does not answer (%v): %s", err, s.output.String())
}

// Stop kills the server.
func (s *Server) Stop() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

func (s *Server) makeBucket() {
	s.t.Helper()
	client, err := minio.New(s.addr, &minio.Options{
		Creds: credentials.NewStaticV4(KeyID, Secret, ""), Secure: s.cert != "", Region: "us-east-1", BucketLookup: minio.BucketLookupPath,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), longstop)
		defer cancel()
		err = client.MakeBucket(ctx, Bucket, minio.MakeBucketOptions{})
	}
	if err != nil {
		s.t.Fatalf("making the bucket: %v; the server said: %s", err, s.output.String())
	}
}
