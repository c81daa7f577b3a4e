package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/durable"
)

// Names of the authority's files in its directory.
const (
	CACertFile = "ca.pem"
	CAKeyFile  = "ca-key.pem"
)

const (
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// backdate is how long before its issue a certificate becomes valid, so that a machine whose clock is behind
	// accepts it.
	backdate = time.Hour
	// keySuffix is the suffix of a key's name.
	keySuffix = "-key"
)

// CA signs the certificates of one cluster.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// CertFile is the path of the authority's certificate. Every component needs it to verify its peers.
	CertFile string
}

// Files holds the paths of all files that a component needs: its certificate and key, which Issue wrote, and the
// authority's certificate.
type Files struct {
	Cert, Key, CA string
}

// FilesOf returns the paths of the files that Issue writes for an id.
func FilesOf(dir, id string) Files {
	return Files{Cert: filepath.Join(dir, id+".pem"), Key: filepath.Join(dir, id+keySuffix+".pem"), CA: filepath.Join(dir, CACertFile)}
}

// CreateCA creates an authority in dir, or loads an existing one.
func CreateCA(dir string) (*CA, error) {
	ca, err := LoadCA(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return ca, err
	}
	if _, there := os.Lstat(filepath.Join(dir, CACertFile)); there == nil {
		return nil, err // its key is kept elsewhere: do not replace the authority
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create certificate directory: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate authority key: %w", err)
	}
	template, err := newTemplate(pkix.Name{CommonName: "Mind cluster authority"}, authorityLifetime)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign authority certificate: %w", err)
	}
	// writePair writes the key first, so an interrupted start does not leave a certificate without its key, which would
	// be loaded.
	if err := writePair(filepath.Join(dir, CACertFile), filepath.Join(dir, CAKeyFile), der, key); err != nil {
		return nil, err
	}
	return LoadCA(dir)
}

// LoadCA reads the authority in dir. The error wraps fs.ErrNotExist if there is none.
func LoadCA(dir string) (*CA, error) {
	certFile := filepath.Join(dir, CACertFile)
	certDER, err := readPEM(certFile, "CERTIFICATE")
	if err != nil {
		return nil, fmt.Errorf("load authority certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", certFile, err)
	}
	keyDER, err := readPEM(filepath.Join(dir, CAKeyFile), "EC PRIVATE KEY")
	if err != nil {
		return nil, fmt.Errorf("load authority key: %w", err)
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, fmt.Errorf("parse authority key: %w", err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("authority in %s: the key does not match the certificate", dir)
	}
	return &CA{cert: cert, key: key, CertFile: certFile}, nil
}

// Issue writes dir/ID.pem and dir/ID-key.pem for one component. The hosts are its names or addresses; localhost, 127.0.0.1
// and ::1 are always included. The certificate is valid for a year, for both ends of a connection.
func (ca *CA) Issue(dir, id, role string, hosts ...string) (Files, error) {
	return ca.issue(dir, id, role, certificateLifetime, hosts)
}

func (ca *CA) issue(dir, id, role string, lifetime time.Duration, hosts []string) (Files, error) {
	if id == "" || filepath.Base(id) != id || strings.HasPrefix(id, ".") {
		return Files{}, fmt.Errorf("issue certificate: %q is not an id", id)
	}
	if id+".pem" == CACertFile || strings.HasSuffix(id, keySuffix) {
		return Files{}, fmt.Errorf("issue certificate: the id %q would overwrite other files", id)
	}
	switch role {
	case RoleCoordinator, RoleAgent, RoleGateway, RoleOperator:
	default:
		return Files{}, fmt.Errorf("issue certificate for %s: unknown role %q", id, role)
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return Files{}, fmt.Errorf("create certificate directory: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Files{}, fmt.Errorf("generate key for %s: %w", id, err)
	}
	template, err := newTemplate(pkix.Name{CommonName: id, OrganizationalUnit: []string{role}}, lifetime)
	if err != nil {
		return Files{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range append([]string{"localhost", "127.0.0.1", "::1"}, hosts...) {
		switch ip := net.ParseIP(host); {
		case ip != nil && !slices.ContainsFunc(template.IPAddresses, ip.Equal):
			template.IPAddresses = append(template.IPAddresses, ip)
		case ip == nil && host != "" && !slices.ContainsFunc(template.DNSNames, func(name string) bool { return strings.EqualFold(name, host) }):
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		return Files{}, fmt.Errorf("sign certificate for %s: %w", id, err)
	}
	files := FilesOf(dir, id)
	files.CA = ca.CertFile
	return files, writePair(files.Cert, files.Key, der, key)
}

func newTemplate(subject pkix.Name, lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw certificate serial: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(lifetime),
	}, nil
}

// writePair writes a certificate and its key, the key first.
func writePair(certFile, keyFile string, der []byte, key *ecdsa.PrivateKey) error {
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	if err := writePEM(keyFile, "EC PRIVATE KEY", keyDER); err != nil {
		return err
	}
	return writePEM(certFile, "CERTIFICATE", der)
}

func writePEM(name, kind string, der []byte) error {
	if err := durable.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func readPEM(name, kind string) ([]byte, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s holds no %s block", name, kind)
	}
	return block.Bytes, nil
}
