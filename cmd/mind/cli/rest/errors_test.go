package rest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestErrors_sayWhereTheTokenIsMissing(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs", clitest.Refuse(401, "AUTH_TOKEN_MISSING", "send an Authorization header: Bearer TOKEN"))
	require.Equal(t, "mind: there is no token: give one with MIND_TOKEN or --token, or set MIND_DEV to the data directory of a `mind dev` to use its token\n", clitest.Fails(t, "jobs"))
}

func TestErrors_sayHowToFindWhatIsMissing(t *testing.T) {
	clitest.NewGateway(t)
	for _, c := range []struct{ command, advice string }{
		{"job x", "`mind jobs`"},
		{"logs x", "`mind jobs`"},
		{"cancel x", "`mind jobs`"},
		{"explain x", "`mind jobs`"},
		{"nodes x", "`mind nodes`"},
		{"drain x", "`mind nodes`"},
		{"node forget x --yes", "`mind nodes`"},
		{"queue x", "`mind queues`"},
		{"queues delete x", "`mind queues`"},
		{"evaluation x", "`mind evaluations`"},
		{"token revoke x", "`mind token list`"},
	} {
		require.Contains(t, clitest.Fails(t, strings.Fields(c.command)...), "mind: there is no such thing: "+c.advice, c.command)
	}
}

func TestErrors_sayThatThePortIsWrong(t *testing.T) {
	clitest.NewGateway(t)
	addr := clitest.HangingUp(t)
	for _, command := range []string{"jobs", "events -f", "logs -f x"} {
		require.Contains(t, clitest.Fails(t, append(strings.Fields(command), "--addr", addr)...), "try again; if that does not help, give the address of a gateway", command)
	}
	health := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(health.Close)
	require.Equal(t, "mind: "+health.URL+" answers 404 Not Found, which is not the answer of a Mind gateway: give the address of a gateway, not one of a coordinator or an agent\n",
		clitest.Fails(t, "jobs", "--addr", health.URL))
}

// certificate makes a self-signed certificate, and a file that trusts it.
func certificate(t *testing.T, host string, from, to time.Time) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, IPAddresses: []net.IP{net.ParseIP(host)},
		NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if template.IPAddresses[0] == nil {
		template.IPAddresses = nil
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func TestErrors_sayWhatIsWrongWithACertificate(t *testing.T) {
	clitest.NewGateway(t)
	now, day := time.Now(), 24*time.Hour
	for name, c := range map[string]struct {
		host     string
		from, to time.Time
		clients  tls.ClientAuthType
		says     string
	}{
		"it ran out":       {"127.0.0.1", now.Add(-2 * day), now.Add(-day), 0, "have the gateway's certificate replaced, or set the clock"},
		"it is not yet":    {"127.0.0.1", now.Add(day), now.Add(2 * day), 0, "wait until the gateway's certificate is valid"},
		"of another name":  {"mind.example.org", now.Add(-day), now.Add(day), 0, "write the address with a name that is in the gateway's certificate"},
		"of a coordinator": {"127.0.0.1", now.Add(-day), now.Add(day), tls.RequireAnyClientCert, "asks for a certificate, as coordinators and agents do: give the address of a gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			own, file := certificate(t, c.host, c.from, c.to)
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: c.clients, MinVersion: tls.VersionTLS13}
			server.StartTLS()
			t.Cleanup(server.Close)
			require.Contains(t, clitest.Fails(t, "jobs", "--addr", server.URL, "--ca-cert", file), c.says)
		})
	}
}

func TestRefusal_saysEachThingOnce(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(422)
		fmt.Fprint(w, `{"error":{"code":"VALIDATION_ERROR","message":"a: is bad (and 1 more)","details":[{"field":"a","message":"is bad"},{"field":"b","message":"is worse"}]}}`)
	})
	_, stderr, _ := clitest.Run(t, "jobs")
	require.Equal(t, "mind: a: is bad; b: is worse\n", stderr)

	g.On("GET /jobs", clitest.Refuse(400, "INVALID_ARGUMENT", "a: is \u202ebad\nb: is worse"))
	_, stderr, _ = clitest.Run(t, "jobs")
	require.Equal(t, "mind: a: is \uFFFDbad; b: is worse\n", stderr)

	g.On("GET /jobs", clitest.Refuse(409, "FAILED_PRECONDITION", "it has\nended"))
	_, stderr, _ = clitest.Run(t, "jobs")
	require.Equal(t, "mind: it has; ended\n", stderr)

	const lost = "the metrics of job job_1, attempt 1, rank 0, are missing: node n1 does not answer, and there is no log archive"
	g.On("GET /jobs/job_1/metrics", clitest.Refuse(404, "NOT_FOUND", lost))
	_, stderr, _ = clitest.Run(t, "metrics", "job_1")
	require.Equal(t, "mind: "+lost+"\n", stderr, "the job is there: a list of jobs helps nobody")

	g.On("GET /jobs", clitest.Refuse(503, "UNAVAILABLE", "no leader; nothing was changed: try again"))
	_, stderr, _ = clitest.Run(t, "jobs", "--stale")
	require.Equal(t, "mind: no leader; nothing was changed: try again in a moment; if that does not help, check `mind raft peers`\n", stderr)

	g.On("GET /jobs", clitest.Refuse(503, "NODE_UNAVAILABLE", "node n1 does not answer: name another node, or see `mind nodes`"))
	_, stderr, _ = clitest.Run(t, "jobs")
	require.Equal(t, "mind: node n1 does not answer: name another node, or see `mind nodes`\n", stderr, "the leader is not to blame")
}
