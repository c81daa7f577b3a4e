package pki

import (
	"crypto/tls"
	"strings"
	"time"
)

const (
	// endsSoon is how long before a certificate expires the warnings begin, and complainPace is the time between two
	// warnings.
	endsSoon     = 30 * 24 * time.Hour
	complainPace = 24 * time.Hour
)

// NotAfter returns the time at which the certificate in use expires.
func (k *Keys) NotAfter() time.Time {
	cert, _ := k.current()
	return cert.Leaf.NotAfter
}

// complain logs that peers reject the certificate, or soon will. The certificates of a cluster are often issued
// together, so they expire together; and a component does not notice that its own certificate has expired, because only
// peers check it. The caller holds mu.
func (k *Keys) complain(cert *tls.Certificate) {
	now := k.now()
	left := cert.Leaf.NotAfter.Sub(now)
	ended := left <= 0
	if cert == k.complainedOf && ended == k.complainedEnd && now.Sub(k.complained) < complainPace {
		return
	}
	k.complainedOf, k.complainedEnd, k.complained = cert, ended, now
	files := strings.TrimSuffix(k.files.Cert+" "+k.files.CA, " ")
	if err := k.accepted(cert); err != nil {
		k.log.Error("this certificate is not valid now, so all peers reject it: replace it", "files", files, "not_after", cert.Leaf.NotAfter, "error", err)
	} else if left < endsSoon {
		k.log.Warn("this certificate expires soon: replace it", "files", files, "not_after", cert.Leaf.NotAfter, "days", int(left.Hours()/24))
	}
}
