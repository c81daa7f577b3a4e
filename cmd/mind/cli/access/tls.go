package access

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/durable"
	"github.com/mindcoordinator/mind/pki"
)

func newTLS() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tls",
		Short: "Make an authority and the certificates of a cluster",
		Long: `Makes an authority and the certificates of a cluster, and shows them.

Every component has a certificate of its own, which says who it is and what: a coordinator, an agent, a gateway or an
operator. Components talk to each other only when one authority signed for both.

A cluster of three machines, each with a coordinator and an agent, and a gateway on the first:

  mind tls init  --dir pki
  mind tls issue --dir pki --role coordinator --id c1 --host 10.0.0.1
  mind tls issue --dir pki --role coordinator --id c2 --host 10.0.0.2
  mind tls issue --dir pki --role coordinator --id c3 --host 10.0.0.3
  mind tls issue --dir pki --role agent       --id n1 --host 10.0.0.1
  mind tls issue --dir pki --role agent       --id n2 --host 10.0.0.2
  mind tls issue --dir pki --role agent       --id n3 --host 10.0.0.3
  mind tls issue --dir pki --role gateway
  mind tls issue --dir pki --role operator

Take to each machine pki/ca.pem, and the two files of each component that runs there (c1.pem and c1-key.pem, ...); nothing
else. In the configuration of each component:

  cert_file: /etc/mind/c1.pem
  key_file: /etc/mind/c1-key.pem
  ca_file: /etc/mind/ca.pem

pki/ca-key.pem makes members of the cluster: keep it where no component runs. Then look at the cluster with

  mind raft peers --coordinators 10.0.0.1:7001 --cert pki/operator.pem --key pki/operator-key.pem --ca pki/ca.pem

Certificates are good for a year. A new one is taken from its file without a restart: issue it with --force, and copy it to
where the old one is. The authority is good for ten years. To replace it while the cluster runs:

  mind tls init --dir pki2                      # a new authority
  cat pki/ca.pem pki2/ca.pem > both.pem         # 1. both.pem becomes ca.pem on every machine
  mind tls issue --dir pki2 --role ... --id ... # 2. then every component gets a certificate of the new authority
                                                # 3. then pki2/ca.pem alone becomes ca.pem on every machine`,
		Example: `  mind tls init --dir pki
  mind tls issue --dir pki --role coordinator --id c1 --host 10.0.0.1
  mind tls show pki/c1.pem`,
	}
	cmd.AddCommand(newTLSInit(), newTLSIssue(), newTLSShow())
	return cmd
}

func newTLSInit() *cobra.Command {
	var dir string
	var force bool
	cmd := &cobra.Command{
		Use:   "init --dir DIR",
		Short: "Make the authority that signs the certificates of a cluster",
		Long: `Makes the authority that signs the certificates of a cluster: DIR/ca.pem, which every component needs, and DIR/ca-key.pem,
which only mind tls issue needs. With --force a new authority replaces one that exists, whose files are kept with .old at the
end of their names; components that have only the new ca.pem accept nothing that the old one signed.`,
		Example: `  mind tls init --dir pki`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names := []string{filepath.Join(dir, pki.CACertFile), filepath.Join(dir, pki.CAKeyFile)}
			for _, name := range names {
				switch there, err := exists(name); {
				case err != nil:
					return err
				case there && !force:
					return fmt.Errorf("%s exists: an authority is made once; --force makes a new one, which has signed no certificate yet", name)
				case there:
					if err := durable.Rename(name, name+".old"); err != nil {
						return fmt.Errorf("putting the old authority aside: %w", err)
					}
					fmt.Fprintf(cmd.ErrOrStderr(), "kept the old one as %s.old\n", name)
				}
			}
			ca, err := pki.CreateCA(dir)
			if err != nil {
				return err
			}
			certs, err := pki.ReadCertificates(ca.CertFile)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s, the authority's certificate, good until %s: every component needs it\n", names[0], day(certs[0].NotAfter))
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s, its key: keep it where no component runs\n", names[1])
			return nil
		},
	}
	bindTLSDir(cmd, &dir, &force, "make a new authority although there is one")
	return cmd
}

func newTLSIssue() *cobra.Command {
	var (
		dir, role, id string
		hosts         []string
		force         bool
	)
	cmd := &cobra.Command{
		Use:   "issue --dir DIR --role ROLE --id ID --host HOST...",
		Short: "Make the certificate of one component",
		Long: `Makes the certificate of one component, DIR/ID.pem, and its key, DIR/ID-key.pem, signed by the authority in DIR.

The id is that of the component: the id of a coordinator, the node_id of an agent. The hosts are the names and addresses at
which others reach it (grpc_advertise, raft_advertise); localhost, 127.0.0.1 and ::1 are always added. Nobody connects to
gateways and operators with this certificate: they need no hosts, and their id is their role unless --id is given.`,
		Example: `  mind tls issue --dir pki --role coordinator --id c1 --host c1.example --host 10.0.0.1
  mind tls issue --dir pki --role agent --id n1 --host 10.0.1.1 --force
  mind tls issue --dir pki --role operator --id ann`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			caller := role == pki.RoleGateway || role == pki.RoleOperator
			if id == "" && caller {
				id = role
			}
			if id == "" {
				return exit.Misuse(errors.New("--id is missing: the id of a coordinator, the node_id of an agent"))
			}
			for _, h := range hosts {
				if !isHost(h) {
					return exit.Misuse(fmt.Errorf("--host %q: give a name or an address, without port", h))
				}
			}
			files := pki.FilesOf(dir, id)
			ca, err := pki.LoadCA(dir)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no complete authority in %s: make one with `mind tls init --dir %s` (%w)", dir, dir, err)
			}
			if err != nil {
				return err
			}
			for _, name := range []string{files.Cert, files.Key} {
				switch there, err := exists(name); {
				case err != nil:
					return err
				case there && !force:
					return fmt.Errorf("%s exists: --force replaces it", name)
				}
			}
			if files, err = ca.Issue(dir, id, role, hosts...); err != nil {
				return err
			}
			certs, err := pki.ReadCertificates(files.Cert)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s, the certificate of %s %s for %s, good until %s\n", files.Cert, role, id, strings.Join(hostsOf(certs[0]), ", "), day(certs[0].NotAfter))
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s, its key\n", files.Key)
			if !caller && len(hosts) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: without --host it can be reached from its own machine only")
			}
			return nil
		},
	}
	bindTLSDir(cmd, &dir, &force, "replace a certificate that exists")
	roles := []string{pki.RoleCoordinator, pki.RoleAgent, pki.RoleGateway, pki.RoleOperator}
	cmd.Flags().StringVar(&role, "role", "", "role of the component: "+strings.Join(roles, ", "))
	cmd.Flags().StringVar(&id, "id", "", "id of the component (default for gateways and operators: their role)")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "name or address at which others reach it; repeatable")
	_ = cmd.MarkFlagRequired("role")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func bindTLSDir(cmd *cobra.Command, dir *string, force *bool, forceHelp string) {
	cmd.Flags().StringVar(dir, "dir", "", "folder of the authority and of what it signs")
	cmd.Flags().BoolVar(force, "force", false, forceHelp)
	_ = cmd.MarkFlagRequired("dir")
	_ = cmd.MarkFlagDirname("dir")
}

// shownCertificate is a certificate as it is printed.
type shownCertificate struct {
	File        string    `json:"file"`
	Identity    string    `json:"identity"`
	Role        string    `json:"role"`
	Hosts       []string  `json:"hosts"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
	Expired     bool      `json:"expired"`
	Issuer      string    `json:"issuer"`
	Fingerprint string    `json:"sha256"`
}

func newTLSShow() *cobra.Command {
	var output, ca string
	cmd := &cobra.Command{
		Use:   "show FILE...",
		Short: "Show whose a certificate is, for which hosts, and until when",
		Long: `Shows all certificates of files: whose each is, its role, its hosts, and how long it is valid. With --ca it also says whether a
component that has that ca_file accepts them, and exits with 1 when it does not.`,
		Example: `  mind tls show /etc/mind/c1.pem
  mind tls show --ca /etc/mind/ca.pem /etc/mind/c1.pem /etc/mind/n1.pem`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := render.CheckOutput(output); err != nil {
				return exit.Misuse(err)
			}
			shown, faults := []shownCertificate{}, []error{}
			var roots *x509.CertPool
			if ca != "" {
				certs, err := pki.ReadCertificates(ca)
				if err != nil {
					return fmt.Errorf("--ca: %w", err)
				}
				roots = x509.NewCertPool()
				for _, c := range certs {
					roots.AddCert(c)
				}
			}
			for _, name := range args {
				certs, err := pki.ReadCertificates(name)
				if err != nil {
					return err
				}
				if roots != nil {
					between := x509.NewCertPool()
					for _, c := range certs[1:] {
						between.AddCert(c)
					}
					if _, err := certs[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
						faults = append(faults, fmt.Errorf("%s is not accepted by those who have %s: %w", name, ca, err))
					}
				}
				for _, c := range certs {
					shown = append(shown, show(name, c))
				}
			}
			if err := printCertificates(cmd, output, shown); err != nil {
				return err
			}
			return errors.Join(faults...)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	cmd.Flags().StringVar(&ca, "ca", "", "authorities (PEM) to check the certificates with")
	return cmd
}

func show(file string, c *x509.Certificate) shownCertificate {
	sum := sha256.Sum256(c.Raw)
	role := strings.Join(c.Subject.OrganizationalUnit, ", ")
	if c.IsCA {
		role = "authority"
	}
	return shownCertificate{
		File: file, Identity: c.Subject.CommonName, Role: role, Hosts: hostsOf(c), NotBefore: c.NotBefore, NotAfter: c.NotAfter,
		Expired: time.Now().After(c.NotAfter), Issuer: c.Issuer.CommonName, Fingerprint: hex.EncodeToString(sum[:]),
	}
}

func printCertificates(cmd *cobra.Command, output string, shown []shownCertificate) error {
	if output != "table" {
		return render.Value(cmd.OutOrStdout(), output, shown)
	}
	t := render.NewTable(cmd.OutOrStdout(), "FILE", "IDENTITY", "ROLE", "HOSTS", "EXPIRES", "LEFT", "SIGNED BY", "SHA-256")
	for _, c := range shown {
		left := fmt.Sprintf("%d days", int(time.Until(c.NotAfter).Hours()/24))
		if c.Expired {
			left = "EXPIRED"
		}
		t.Row(c.File, c.Identity, c.Role, strings.Join(c.Hosts, ","), day(c.NotAfter), left, c.Issuer, c.Fingerprint[:16])
	}
	return t.Flush()
}

func hostsOf(c *x509.Certificate) []string {
	hosts := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

func isHost(h string) bool {
	return net.ParseIP(h) != nil || h != "" && !strings.ContainsAny(h, ":/@ \t\n")
}

func exists(name string) (bool, error) {
	_, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
