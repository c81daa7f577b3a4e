package stream_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// nginx runs a real nginx in front of a gateway, with given directives for the location, and returns its URL.
func nginx(t *testing.T, gateway, directives string) string {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
		if _, err := os.Stat(path); err != nil {
			t.Skip("there is no nginx on this machine (Debian: apt-get install nginx-light)")
		}
	}
	dir := t.TempDir()
	addr := porttest.Claim(t)
	config := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server {
		listen %[2]s;
		location / { proxy_pass http://%[3]s; %[4]s }
	}
}
`, dir, addr, gateway, directives)
	file := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	var said bytes.Buffer
	cmd := exec.Command(path, "-p", dir, "-c", file, "-e", filepath.Join(dir, "error.log"))
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	require.Eventually(t, func() bool {
		select {
		case <-ended:
			log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			require.Fail(t, "nginx ended", "%s%s", said.String(), log)
		default:
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	}, time.Minute, 20*time.Millisecond)
	return "http://" + addr
}

// gatewayOnLoopback runs a gateway that nginx can reach.
func gatewayOnLoopback(t *testing.T, config gateway.Config) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	config.Listener = lis
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- gateway.Run(ctx, config) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return lis.Addr().String()
}

// behindNginx opens the log of the printer's job, and returns its data lines as they arrive.
func behindNginx(t *testing.T, directives string, headers ...string) (*printer, <-chan string) {
	c := gatewaytest.NewCoordinator(t)
	p := newPrinter(c)
	url := nginx(t, gatewayOnLoopback(t, gatewaytest.Config(c)), directives)
	r, err := http.NewRequestWithContext(t.Context(), "GET", url+rest.Prefix+"/jobs/job_1/logs", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+gatewaytest.TokenAll)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableCompression: true}}).Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, 200, resp.StatusCode)
	data := make(chan string, 100)
	go func() {
		defer close(data)
		var body io.Reader = resp.Body
		if resp.Header.Get("Content-Encoding") == "gzip" {
			if body, err = gzip.NewReader(resp.Body); err != nil {
				return
			}
		}
		for lines := bufio.NewScanner(body); lines.Scan(); {
			if line, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				data <- line
			}
		}
	}()
	return p, data
}

// Each line arrives before the next one is printed.
func TestLogs_lineByLineThroughNginx(t *testing.T) {
	for name, tc := range map[string]struct {
		directives string
		headers    []string
	}{
		"as Debian ships it": {"", nil},
		"with HTTP/1.1":      {`proxy_http_version 1.1; proxy_set_header Connection "";`, nil},
		"with buffering off": {"proxy_buffering off;", nil},
		"with many buffers":  {"proxy_buffering on; proxy_buffer_size 64k; proxy_buffers 16 64k;", nil},
		"with gzip":          {"gzip on; gzip_proxied any; gzip_types text/event-stream;", []string{"Accept-Encoding", "gzip"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, data := behindNginx(t, tc.directives, tc.headers...)
			for n := 1; n <= 20; n++ {
				p.print(1, false)
				select {
				case line := <-data:
					require.Contains(t, line, fmt.Sprintf(`"message":"line %d"`, n))
				case <-time.After(time.Minute):
					require.Fail(t, "held back", "line %d", n)
				}
			}
			p.print(0, true)
			require.JSONEq(t, gatewaytest.StreamEnded, <-data)
		})
	}
}

// This shows what the header is for: an nginx that ignores it buffers the whole answer, including the headers, until
// there is much data.
func TestLogs_nginxBuffersWhenItIgnoresTheHeader(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	p := newPrinter(c)
	p.print(3, false)
	url := nginx(t, gatewayOnLoopback(t, gatewaytest.Config(c)), "proxy_ignore_headers X-Accel-Buffering; proxy_buffering on; proxy_buffer_size 64k; proxy_buffers 16 64k;")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", url+rest.Prefix+"/jobs/job_1/logs", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+gatewaytest.TokenAll)
	resp, err := http.DefaultClient.Do(r)
	if err == nil {
		_, err = bufio.NewReader(resp.Body).ReadString('\n')
		_ = resp.Body.Close()
	}
	require.ErrorIs(t, err, context.DeadlineExceeded, "else the test above proves nothing")
}
