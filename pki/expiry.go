package pki

import (
	"crypto/tls"
	"strings"
	"time"
)

const (
	// endsSoon is how long before its end a certificate is complained of, and complainPace how often.
	endsSoon     = 30 * 24 * time.Hour
	complainPace = 24 * time.Hour
)

// NotAfter is when the certificate that is in use runs out.
func (k *Keys) NotAfter() time.Time {
	cert, _ := k.current()
	return cert.Leaf.NotAfter
}

// complain says that the certificate is none that peers take, or soon will not be. Certificates are made together and run out
// together, without a word from those who hold them: peers are the ones who refuse. mu is held.
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
		k.log.Error("this certificate is refused by everybody: put one that is good in its place", "files", files, "not_after", cert.Leaf.NotAfter, "error", err)
	} else if left < endsSoon {
		k.log.Warn("this certificate runs out soon: put a new one in its place", "files", files, "not_after", cert.Leaf.NotAfter, "days", int(left.Hours()/24))
	}
}
