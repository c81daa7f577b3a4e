package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"
)

// LoadServerTLS returns the configuration of a door that lets in only peers
// with a certificate of the authority. Which of them may use it is for
// RequireRole or PeerIdentity to say.
func LoadServerTLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	source, pool, err := load(certFile, keyFile, caFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		ClientAuth:     tls.RequireAndVerifyClientCert,
		ClientCAs:      pool,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return source.current(), nil },
	}, nil
}

// LoadClientTLS returns the configuration of the calling end: it verifies that
// the server's certificate names the host that was dialled.
func LoadClientTLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	source, pool, err := load(certFile, keyFile, caFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return source.current(), nil
		},
	}, nil
}

// ServerTLS loads the files for a server.
func (f Files) ServerTLS() (*tls.Config, error) { return LoadServerTLS(f.Cert, f.Key, f.CA) }

// ClientTLS loads the files for a client.
func (f Files) ClientTLS() (*tls.Config, error) { return LoadClientTLS(f.Cert, f.Key, f.CA) }

func load(certFile, keyFile, caFile string) (*keyPair, *x509.CertPool, error) {
	raw, err := os.ReadFile(caFile)
	if err != nil {
		return nil, nil, fmt.Errorf("load authority certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, nil, fmt.Errorf("load authority certificate: %s holds none", caFile)
	}
	source := &keyPair{certFile: certFile, keyFile: keyFile}
	if err := source.reload(); err != nil {
		return nil, nil, fmt.Errorf("load certificate: %w", err)
	}
	return source, pool, nil
}

// keyPair is a certificate and key that follow their files.
type keyPair struct {
	certFile, keyFile string

	mu   sync.Mutex
	cert *tls.Certificate
	seen [2]fileVersion
}

type fileVersion struct {
	modified time.Time
	size     int64
}

// current returns the pair on disk when it changed and fits together, and the
// last good one otherwise: a replacement in progress must not refuse callers.
func (k *keyPair) current() *tls.Certificate {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now, err := k.versions(); err == nil && now != k.seen {
		_ = k.read(now)
	}
	return k.cert
}

func (k *keyPair) reload() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, err := k.versions()
	if err != nil {
		return err
	}
	return k.read(now)
}

func (k *keyPair) read(version [2]fileVersion) error {
	cert, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		return err
	}
	k.cert, k.seen = &cert, version
	return nil
}

func (k *keyPair) versions() ([2]fileVersion, error) {
	var v [2]fileVersion
	for i, name := range []string{k.certFile, k.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return v, err
		}
		v[i] = fileVersion{info.ModTime(), info.Size()}
	}
	return v, nil
}
