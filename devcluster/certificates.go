package devcluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/pki"
)

const (
	operatorID = "operator"
	// certificateReserve is the minimum remaining validity of a certificate. Otherwise it is issued again.
	certificateReserve = 30 * 24 * time.Hour
)

// files are the paths of a component's certificate.
func (l *layout) files(id string) pki.Files {
	return pki.Files{
		Cert: filepath.Join(l.pki, id+".pem"), Key: filepath.Join(l.pki, id+"-key.pem"), CA: filepath.Join(l.pki, pki.CACertFile),
	}
}

// issueCertificates issues the missing certificates.
func (l *layout) issueCertificates() error {
	ca, err := pki.LoadCA(l.pki)
	if errors.Is(err, fs.ErrNotExist) {
		ca, err = pki.CreateCA(l.pki)
	}
	if err != nil {
		return fmt.Errorf("opening the certificate authority: %w; remove %s to create all certificates again", err, l.pki)
	}
	roles := map[string]string{kindGateway: pki.RoleGateway, operatorID: pki.RoleOperator}
	for _, m := range l.Coordinators {
		roles[m.ID] = pki.RoleCoordinator
	}
	for _, m := range l.Agents {
		roles[m.ID] = pki.RoleAgent
	}
	authority, err := pki.ReadCertificates(filepath.Join(l.pki, pki.CACertFile))
	if err != nil {
		return fmt.Errorf("reading the certificate of the authority: %w", err)
	}
	for id, role := range roles {
		if good(l.files(id), authority) {
			continue
		}
		if _, err := ca.Issue(l.pki, id, role); err != nil {
			return fmt.Errorf("issuing the certificate of %s: %w", id, err)
		}
	}
	return nil
}

// good reports whether a certificate is valid for a while, and was issued by the current authority.
func good(files pki.Files, authority []*x509.Certificate) bool {
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil || time.Until(pair.Leaf.NotAfter) <= certificateReserve {
		return false
	}
	return slices.ContainsFunc(authority, func(ca *x509.Certificate) bool { return pair.Leaf.CheckSignatureFrom(ca) == nil })
}
