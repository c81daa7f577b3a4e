package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
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
)

// fails runs a command that must fail with one line on stderr, which it returns.
func fails(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := mind(t, args...)
	require.NotZero(t, code)
	require.Empty(t, stdout)
	require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %q", stderr)
	return stderr
}

func TestErrors_sayWhereTheTokenIsMissing(t *testing.T) {
	g := newGateway(t)
	g.on("GET /jobs", refuse(401, "AUTH_TOKEN_MISSING", "send an Authorization header: Bearer TOKEN"))
	require.Equal(t, "mind: there is no token: give one with MIND_TOKEN or --token; with MIND_DEV, the data directory of a `mind dev`, its own is taken\n", fails(t, "jobs"))
}

func TestErrors_sayHowToFindWhatIsMissing(t *testing.T) {
	newGateway(t)
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
		require.Contains(t, fails(t, strings.Fields(c.command)...), "mind: there is no such thing: "+c.advice, c.command)
	}
}

// closing is a server that hangs up without a word, as one does that speaks another protocol.
func closing(t *testing.T) (addr string) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			_, _ = conn.Read(buf)
			_ = conn.Close()
		}
	}()
	return lis.Addr().String()
}

func TestErrors_sayThatThePortIsWrong(t *testing.T) {
	newGateway(t)
	addr := closing(t)
	for _, command := range []string{"jobs", "events -f", "logs -f x"} {
		require.Contains(t, fails(t, append(strings.Fields(command), "--addr", addr)...), "try again; if it stays so, give the address of a gateway", command)
	}
	health := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(health.Close)
	require.Equal(t, "mind: "+health.URL+" answers 404 Not Found, and not as a gateway of Mind does: give the address of a gateway, not one of a coordinator or an agent\n",
		fails(t, "jobs", "--addr", health.URL))
}

// certificate makes one that signs for itself, and the file that believes it.
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
	newGateway(t)
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
			require.Contains(t, fails(t, "jobs", "--addr", server.URL, "--ca-cert", file), c.says)
		})
	}
}

func TestRaft_saysWhatIsMissing(t *testing.T) {
	newGateway(t)
	health := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(health.Close)
	here := strings.TrimPrefix(health.URL, "http://")
	for _, c := range []struct{ flags, says string }{
		{"--coordinators 127.0.0.1:1 --ca ca.pem", "--cert is missing: --cert, --key and --ca go together"},
		{"--coordinators 127.0.0.1:1 --cert a.pem --ca ca.pem", "--key is missing"},
		{"--coordinators 127.0.0.1:1 --timeout 1s", "look whether they run"},
		{"--coordinators " + here + " --timeout 1s", "takes grpc_addr of coordinators, not the address of the gateway"},
		{"--coordinators " + closing(t) + " --timeout 1s", "they may ask for a certificate"},
	} {
		require.Contains(t, fails(t, append([]string{"raft", "peers"}, strings.Fields(c.flags)...)...), c.says, c.flags)
	}
}
