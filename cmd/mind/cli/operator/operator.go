// Package operator connects commands directly to the coordinators, with an operator's certificate: without a gateway,
// and for all tenants.
//
// The coordinators' secret is sent only to servers with a coordinator's certificate.
package operator

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	coordinators "github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
	"github.com/mindcoordinator/mind/cmd/mind/settings"
	"github.com/mindcoordinator/mind/devcluster"
	"github.com/mindcoordinator/mind/pki"
)

// Flags are the flags that select the coordinators and the caller's certificate.
type Flags struct {
	Coordinators, Cert, Key, CA, Secret string
	// Timeout is the time limit of a call.
	Timeout time.Duration
}

// Bind adds the flags to a command.
func (o *Flags) Bind(cmd *cobra.Command, timeout time.Duration) {
	f := cmd.Flags()
	f.StringVar(&o.Coordinators, "coordinators", "", "gRPC addresses of coordinators, a,b,c")
	f.StringVar(&o.Cert, "cert", "", "certificate of the operator (PEM)")
	f.StringVar(&o.Key, "key", "", "private key of the certificate (PEM)")
	f.StringVar(&o.CA, "ca", "", "certificate of the cluster's authority (PEM)")
	f.StringVar(&o.Secret, "secret", "", "secret of the coordinators (default: MIND_API_SECRET)")
	f.DurationVar(&o.Timeout, "timeout", timeout, "time limit of the call")
}

// Dial connects to the coordinators given by the flags, or to the ones of a `mind dev`.
func (o *Flags) Dial() (*coordinators.Client, error) {
	config, err := o.Config()
	if err != nil {
		return nil, err
	}
	return coordinators.Dial(config)
}

// Config returns the configuration of a client of the coordinators.
func (o *Flags) Config() (coordinators.Config, error) {
	config := coordinators.Config{Addrs: settings.Split(o.Coordinators), Secret: o.Secret}
	if config.Secret == "" {
		config.Secret = os.Getenv("MIND_API_SECRET")
	}
	files := pki.Files{Cert: o.Cert, Key: o.Key, CA: o.CA}
	if len(config.Addrs) == 0 {
		found, err := (&target.Flags{}).Resolve()
		if err != nil {
			return config, err
		}
		if found.Dev == "" {
			return config, exit.Misuse(errors.New("which coordinators? Give --coordinators (and --cert, --key, --ca), or set MIND_DEV to the data directory of a `mind dev`"))
		}
		info, err := devcluster.ReadInfo(found.Dev)
		if err != nil {
			return config, fmt.Errorf("there is no cluster in %s: is `mind dev` running? (%w)", found.Dev, err)
		}
		for _, c := range info.Coordinators {
			config.Addrs = append(config.Addrs, c.GRPCAddr)
		}
		files = pki.Files{Cert: info.Operator.CertFile, Key: info.Operator.KeyFile, CA: info.CACert}
		config.Secret = info.Operator.APISecret
	}
	o.Cert = files.Cert
	for _, f := range []struct{ flag, file string }{{"--cert", files.Cert}, {"--key", files.Key}, {"--ca", files.CA}} {
		if f.file == "" && files != (pki.Files{}) {
			return config, exit.Misuse(fmt.Errorf("%s is missing: --cert, --key and --ca go together", f.flag))
		}
	}
	if files != (pki.Files{}) {
		tls, err := files.ClientTLS()
		if err != nil {
			return config, fmt.Errorf("loading the operator's certificate (--cert, --key and --ca): %w", err)
		}
		// The secret is sent with each call, so only a server with a coordinator's certificate may receive it.
		config.TLS = pki.RequireRole(tls, pki.RoleCoordinator)
	}
	return config, nil
}

// Explain turns a failed call into one sentence that says what to do.
func (o *Flags) Explain(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	hint, known := "", o.advice(s.Message())
	switch code := s.Code(); {
	case code == codes.NotFound, code == codes.FailedPrecondition, code == codes.InvalidArgument, code == codes.AlreadyExists:
		return errors.New(s.Message()) // the cluster refused it, and says why
	case code == codes.Unimplemented:
		hint = ": the coordinator runs an older version of mind"
	case code == codes.Unauthenticated:
		hint = ": give the api_secret of the coordinators with MIND_API_SECRET or --secret"
	case code == codes.PermissionDenied:
		hint = ": give the certificate of an operator with --cert and --key"
	case known != "":
		hint = ": " + known
	case code == codes.Unavailable, code == codes.DeadlineExceeded:
		hint = fmt.Sprintf(": check that a majority of them runs, and that --coordinators, --cert and --ca are correct; gave up after %s (--timeout)", o.Timeout)
	}
	return fmt.Errorf("no coordinator carried out the call: %s (%s)%s", s.Message(), strings.ToLower(s.Code().String()), hint)
}

// advice returns what to do about a connection error. gRPC reports these errors only as text.
func (o *Flags) advice(text string) string {
	for _, known := range []struct{ says, advice string }{
		{"expired", "`mind tls show` shows how long certificates are valid: replace the expired one, or correct the clock of this machine"},
		{"unknown authority", "give the authority that signed the coordinators' certificates with --ca"},
		{"looked like an HTTP/1.1 header", "--coordinators takes grpc_addr of coordinators, not the address of the gateway, nor http_addr"},
		{"does not look like a TLS handshake", "--coordinators takes grpc_addr of coordinators, not the address of the gateway, nor http_addr; if they have no certificates, leave --cert, --key and --ca out"},
		{"missing selected ALPN", "--coordinators takes grpc_addr of coordinators, not raft_addr"},
	} {
		if strings.Contains(text, known.says) {
			return known.advice
		}
	}
	for _, sign := range []string{"server preface", "remote error: tls", "broken pipe", "reset by peer"} {
		switch {
		case !strings.Contains(text, sign):
		case o.Cert == "":
			return "they may ask for a certificate: give --cert, --key and --ca"
		default:
			return "they may reject --cert: it must be signed by their authority, for the role operator (`mind tls show` shows both)"
		}
	}
	return ""
}
