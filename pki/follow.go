package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// lookPace limits how often handshakes check whether the files changed.
const lookPace = time.Second

// Keys holds a component's certificate, key and trusted authorities as its files have them: handshakes check the files,
// and read them again if one of them changed. Invalid files are logged, and the previous content stays in use.
type Keys struct {
	files Files
	log   *slog.Logger
	now   func() time.Time

	mu     sync.Mutex
	looked time.Time
	cert   followed[*tls.Certificate]
	ca     followed[*x509.CertPool] // empty for HTTPS

	// The certificate, kind and time of the last warning; see complain.
	complainedOf  *tls.Certificate
	complainedEnd bool
	complained    time.Time
}

// followed is the content of files, and the state of the files when they were read.
type followed[T any] struct {
	value T
	from  []fs.FileInfo
	fault string // the last fault that was logged
}

// Open reads the files. All three must be valid. When one of them is invalid later, that is only logged.
func Open(files Files, log *slog.Logger) (*Keys, error) {
	if files.CA == "" {
		// Without this check the system's authorities would be trusted.
		return nil, errors.New("load authority certificate: no file is named")
	}
	return open(files, log)
}

func open(files Files, log *slog.Logger) (*Keys, error) {
	k := &Keys{files: files, log: log, now: time.Now}
	k.looked = k.now()
	if files.CA != "" {
		if _, err := follow(&k.ca, k.readCA, files.CA); err != nil {
			return nil, fmt.Errorf("load authority certificate: %w", err)
		}
	}
	if _, err := follow(&k.cert, k.readPair, files.Cert, files.Key); err != nil {
		return nil, fmt.Errorf("load certificate: %w", err)
	}
	k.complain(k.cert.value)
	return k, nil
}

// current returns the certificate for handshakes and the trusted authorities.
func (k *Keys) current() (*tls.Certificate, *x509.CertPool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); now.Sub(k.looked) >= lookPace || now.Before(k.looked) {
		k.looked = now
		// The authorities are read first, because a new authority may have signed the certificate.
		if k.files.CA != "" {
			again(k, &k.ca, k.readCA, "authority certificate", k.files.CA)
		}
		again(k, &k.cert, k.readPair, "certificate", k.files.Cert, k.files.Key)
		k.complain(k.cert.value)
	}
	return k.cert.value, k.ca.value
}

// again reads the files if they changed. A fault is logged once. As long as it lasts, each call checks the files again.
func again[T any](k *Keys, f *followed[T], read func() (T, error), what string, names ...string) {
	changed, err := follow(f, read, names...)
	switch {
	case err != nil && err.Error() != f.fault:
		f.fault = err.Error()
		k.log.Error("a certificate file changed and is not valid; the previous one stays in use",
			"what", what, "files", strings.Join(names, " "), "error", err)
	case err == nil && (changed || f.fault != ""):
		f.fault = ""
		k.log.Info("certificates were reloaded", "what", what, "files", strings.Join(names, " "))
	}
}

// follow reads the files if they changed. It checks their state before it reads them, so the next call notices a change
// in between.
func follow[T any](f *followed[T], read func() (T, error), names ...string) (changed bool, err error) {
	infos := make([]fs.FileInfo, len(names))
	for i, name := range names {
		if infos[i], err = os.Stat(name); err != nil {
			return false, err
		}
	}
	if sameFiles(f.from, infos) {
		return false, nil
	}
	value, err := read()
	if err != nil {
		return false, err
	}
	f.value, f.from = value, infos
	return true, nil
}

func sameFiles(a, b []fs.FileInfo) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size() || !os.SameFile(a[i], b[i]) {
			return false
		}
	}
	return true
}

// readPair reads the certificate and its key. A valid certificate is replaced only by a valid one of the same holder:
// peers would reject a certificate that has expired, that no authority of the CA file signed, or that belongs to
// another component.
func (k *Keys) readPair() (*tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(k.files.Cert, k.files.Key)
	if err != nil {
		return nil, err
	}
	if old := k.cert.value; old != nil && k.accepted(old) == nil {
		if err := k.accepted(&cert); err != nil {
			return nil, fmt.Errorf("%s: %w", k.files.Cert, err)
		}
		was, now := identityOf(old.Leaf), identityOf(cert.Leaf)
		if k.ca.value != nil && was != now { // Certificates for HTTPS may have any name.
			return nil, fmt.Errorf("%s: it is a certificate of %s, and this is %s", k.files.Cert, now, was)
		}
	}
	return &cert, nil
}

// accepted returns why a peer with the same authorities would reject a certificate; nil if it would not.
func (k *Keys) accepted(cert *tls.Certificate) error {
	leaf := cert.Leaf
	if k.ca.value == nil {
		if now := k.now(); now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
			return x509.CertificateInvalidError{Cert: leaf, Reason: x509.Expired, Detail: "valid from " + leaf.NotBefore.String() + " to " + leaf.NotAfter.String()}
		}
		return nil
	}
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: k.ca.value, Intermediates: between, CurrentTime: k.now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
}

// readCA reads a file with one or more certificates, all or none: a truncated bundle must not shut out half of the cluster.
func (k *Keys) readCA() (*x509.CertPool, error) {
	certs, err := ReadCertificates(k.files.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool, nil
}

// ReadCertificates returns all certificates of a PEM file. A file without a certificate is an error.
func ReadCertificates(name string) ([]*x509.Certificate, error) {
	rest, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", name, len(certs)+1, err)
		}
		certs = append(certs, c)
	}
	if strings.Contains(string(rest), "-----BEGIN") {
		return nil, fmt.Errorf("%s: what follows its certificate %d is damaged", name, len(certs))
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%s: %w", name, errNoCertificate)
	}
	return certs, nil
}

var errNoCertificate = errors.New("it holds no certificate")
