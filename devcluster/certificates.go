package devcluster

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mindcoordinator/mind/pki"
)

const (
	operatorID = "operator"
	// A certificate that runs out sooner than this is made anew.
	certificateReserve = 30 * 24 * time.Hour
)

// files are where the certificate of a component lies.
func (l *layout) files(id string) pki.Files {
	return pki.Files{
		Cert: filepath.Join(l.pki, id+".pem"), Key: filepath.Join(l.pki, id+"-key.pem"), CA: filepath.Join(l.pki, pki.CACertFile),
	}
}

// issueCertificates makes the certificates that are not there yet.
func (l *layout) issueCertificates() error {
	ca, err := pki.LoadCA(l.pki)
	if errors.Is(err, fs.ErrNotExist) {
		ca, err = pki.CreateCA(l.pki)
	}
	if err != nil {
		return fmt.Errorf("opening the certificate authority: %w", err)
	}
	roles := map[string]string{kindGateway: pki.RoleGateway, operatorID: pki.RoleOperator}
	for _, m := range l.Coordinators {
		roles[m.ID] = pki.RoleCoordinator
	}
	for _, m := range l.Agents {
		roles[m.ID] = pki.RoleAgent
	}
	for id, role := range roles {
		if good(l.files(id)) {
			continue
		}
		if _, err := ca.Issue(l.pki, id, role); err != nil {
			return fmt.Errorf("issuing the certificate of %s: %w", id, err)
		}
	}
	return nil
}

func good(files pki.Files) bool {
	if _, err := os.Stat(files.Key); err != nil {
		return false
	}
	text, err := os.ReadFile(files.Cert)
	if err != nil {
		return false
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err == nil && time.Until(cert.NotAfter) > certificateReserve
}
