package raft

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	coordinators "github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
	"github.com/mindcoordinator/mind/cmd/mind/settings"
	"github.com/mindcoordinator/mind/devcluster"
	"github.com/mindcoordinator/mind/pki"
)

// operator holds the flags of the commands that talk to the coordinators directly.
type operator struct {
	coordinators, cert, key, ca, secret, output string
	timeout                                     time.Duration
}

// Command returns `mind raft`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "raft",
		Short: "Inspect and operate the replicas of the control plane",
		Long: `Talks to the coordinators directly, with an operator's certificate, so it works without a gateway.

The addresses of the coordinators and your certificate come from the flags, or from dev.json of a ` + "`mind dev`" + ` (MIND_DEV, or the current context).`,
		Example: `  mind raft peers
  mind raft transfer c2
  mind raft remove c3          # it will not come back
  mind raft verify             # check every coordinator
  mind raft snapshot save /backup/mind.snapshot`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRaftPeers(), newRaftTransfer(), newRaftRemove(), newRaftVerify(), newRaftLevel(), newRaftSnapshot(), newRaftRecover())
	return cmd
}

func (o *operator) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.coordinators, "coordinators", "", "gRPC addresses of coordinators, a,b,c")
	f.StringVar(&o.cert, "cert", "", "certificate of the operator (PEM)")
	f.StringVar(&o.key, "key", "", "private key of the certificate (PEM)")
	f.StringVar(&o.ca, "ca", "", "certificate of the cluster's authority (PEM)")
	f.StringVar(&o.secret, "secret", "", "secret of the coordinators (default: MIND_API_SECRET)")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "time limit of the call")
	f.StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
}

// dial connects to the coordinators given by the flags, or to those of a `mind dev`.
func (o *operator) dial() (*coordinators.Client, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	return coordinators.Dial(config)
}

// config says how to reach the coordinators.
func (o *operator) config() (coordinators.Config, error) {
	config := coordinators.Config{Addrs: settings.Split(o.coordinators), Secret: o.secret}
	if config.Secret == "" {
		config.Secret = os.Getenv("MIND_API_SECRET")
	}
	files := pki.Files{Cert: o.cert, Key: o.key, CA: o.ca}
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
	o.cert = files.Cert
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

// with makes a command that calls the coordinators.
func (o *operator) with(cmd *cobra.Command, run func(ctx context.Context, cmd *cobra.Command, c *coordinators.Client, args []string) error) *cobra.Command {
	o.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := render.CheckOutput(o.output); err != nil {
			return exit.Misuse(err)
		}
		c, err := o.dial()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		if err := run(ctx, cmd, c, args); err != nil {
			return o.explain(err)
		}
		return nil
	}
	return cmd
}

// explain turns a failed call into one sentence that says what to do.
func (o *operator) explain(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	hint, known := "", o.advice(s.Message())
	switch code := s.Code(); {
	case code == codes.Unimplemented:
		hint = ": the coordinator runs an older version of mind"
	case code == codes.Unauthenticated:
		hint = ": give the api_secret of the coordinators with MIND_API_SECRET or --secret"
	case code == codes.PermissionDenied:
		hint = ": give the certificate of an operator with --cert and --key"
	case known != "":
		hint = ": " + known
	case code == codes.Unavailable, code == codes.DeadlineExceeded:
		hint = fmt.Sprintf(": check that a majority of them runs, and that --coordinators, --cert and --ca are correct; gave up after %s (--timeout)", o.timeout)
	}
	return fmt.Errorf("no coordinator carried out the call: %s (%s)%s", s.Message(), strings.ToLower(s.Code().String()), hint)
}

// advice says what to do about a connection error. gRPC reports these errors only as text.
func (o *operator) advice(text string) string {
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
		case o.cert == "":
			return "they may ask for a certificate: give --cert, --key and --ca"
		default:
			return "they may reject --cert: it must be signed by their authority, for the role operator (`mind tls show` shows both)"
		}
	}
	return ""
}

func newRaftTransfer() *cobra.Command {
	o := &operator{}
	return o.with(&cobra.Command{
		Use:   "transfer [COORDINATOR]",
		Short: "Transfer leadership to another coordinator",
		Long:  "Transfers leadership to the given coordinator, or to the most up-to-date one.",
		Example: `  mind raft transfer
  mind raft transfer c2`,
		Args: cobra.MaximumNArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *coordinators.Client, args []string) error {
		request := &v1.TransferLeadershipRequest{}
		if len(args) == 1 {
			request.To = args[0]
		}
		got, err := c.Operators().TransferLeadership(ctx, request)
		if err != nil {
			return err
		}
		if o.output != "table" {
			return render.Value(cmd.OutOrStdout(), o.output, map[string]string{"leader": got.GetLeader()})
		}
		fmt.Fprintln(cmd.OutOrStdout(), got.GetLeader()+" leads")
		return nil
	})
}

func newRaftRemove() *cobra.Command {
	o := &operator{}
	return o.with(&cobra.Command{
		Use:   "remove COORDINATOR",
		Short: "Remove a coordinator from the voters permanently",
		Long: `Removes a coordinator from the voters, so that it no longer counts towards a majority. Use it for a coordinator whose disk is
lost, or that is retired. It needs a majority of the current voters. Start a replacement under a new id, with join_via.`,
		Example: `  mind raft remove c3`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *coordinators.Client, args []string) error {
		if _, err := c.Operators().RemovePeer(ctx, &v1.RemovePeerRequest{Id: args[0]}); err != nil {
			return err
		}
		if o.output != "table" {
			return render.Value(cmd.OutOrStdout(), o.output, map[string]string{"removed": args[0]})
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is no longer a voter\n", args[0])
		return err
	})
}
