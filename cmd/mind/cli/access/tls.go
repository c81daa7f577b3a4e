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
		Short: "Create an authority and the certificates of a cluster",
		Long: `Creates an authority and the certificates of a cluster, and shows them.

Every component has its own certificate, which carries its id and its role: coordinator, agent, gateway or operator.
Components accept each other only if the same authority signed both certificates.

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

Copy to each machine pki/ca.pem and the two files of each component that runs there (c1.pem and c1-key.pem, ...), and
nothing else. In the configuration of each component:

  cert_file: /etc/mind/c1.pem
  key_file: /etc/mind/c1-key.pem
  ca_file: /etc/mind/ca.pem

Anyone who has pki/ca-key.pem can create members of the cluster: keep it on a machine where no component runs. Then check
the cluster with

  mind raft peers --coordinators 10.0.0.1:7001 --cert pki/operator.pem --key pki/operator-key.pem --ca pki/ca.pem

Certificates are valid for one year. Components load a new certificate without a restart: issue it with --force and copy it
over the old one. The authority is valid for ten years. To replace it while the cluster runs:

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
		Short: "Create the authority that signs the certificates of a cluster",
		Long: `Creates the authority that signs the certificates of a cluster: DIR/ca.pem, which every component needs, and DIR/ca-key.pem,
which only mind tls issue needs. With --force it replaces an existing authority, whose files are kept with the suffix .old.
Components that have only the new ca.pem reject every certificate that the old authority signed.`,
		Example: `  mind tls init --dir pki`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names := []string{filepath.Join(dir, pki.CACertFile), filepath.Join(dir, pki.CAKeyFile)}
			for _, name := range names {
				switch there, err := exists(name); {
				case err != nil:
					return err
				case there && !force:
					return fmt.Errorf("%s exists; --force replaces it with a new authority, and every component then needs a new certificate", name)
				case there:
					if err := durable.Rename(name, name+".old"); err != nil {
						return fmt.Errorf("renaming the old authority: %w", err)
					}
					fmt.Fprintf(cmd.ErrOrStderr(), "renamed the old authority to %s.old\n", name)
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
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s, the certificate of the authority, valid until %s: every component needs it\n", names[0], day(certs[0].NotAfter))
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s, its key: keep it on a machine where no component runs\n", names[1])
			return nil
		},
	}
	bindTLSDir(cmd, &dir, &force, "replace an existing authority")
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
		Short: "Issue the certificate of one component",
		Long: `Issues the certificate of one component, DIR/ID.pem, and its key, DIR/ID-key.pem, signed by the authority in DIR.

The id is the id of a coordinator or the node_id of an agent. The hosts are the names and addresses at which others reach
the component (grpc_advertise, raft_advertise); localhost, 127.0.0.1 and ::1 are always added. Gateways and operators use
their certificates only as clients: they need no hosts, and their id is their role unless --id is given.`,
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
				return fmt.Errorf("there is no complete authority in %s: create one with `mind tls init --dir %s` (%w)", dir, dir, err)
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
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s, the certificate of %s %s for %s, valid until %s\n", files.Cert, role, id, strings.Join(hostsOf(certs[0]), ", "), day(certs[0].NotAfter))
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s, its key\n", files.Key)
			if !caller && len(hosts) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: without --host, only clients on its own machine can connect to it")
			}
			return nil
		},
	}
	bindTLSDir(cmd, &dir, &force, "replace an existing certificate")
	roles := []string{pki.RoleCoordinator, pki.RoleAgent, pki.RoleGateway, pki.RoleOperator}
	cmd.Flags().StringVar(&role, "role", "", "role of the component: "+strings.Join(roles, ", "))
	cmd.Flags().StringVar(&id, "id", "", "id of the component (default for gateways and operators: their role)")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "name or address at which others reach it; repeatable")
	_ = cmd.MarkFlagRequired("role")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func bindTLSDir(cmd *cobra.Command, dir *string, force *bool, forceHelp string) {
	cmd.Flags().StringVar(dir, "dir", "", "directory of the authority and of the certificates that it signs")
	cmd.Flags().BoolVar(force, "force", false, forceHelp)
	_ = cmd.MarkFlagRequired("dir")
	_ = cmd.MarkFlagDirname("dir")
}

// shownCertificate is a certificate as `mind tls show` prints it.
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
		Short: "Show the owner, hosts and validity of certificates",
		Long: `Shows every certificate in the given files: its owner, role and hosts, and how long it is valid. With --ca it also checks
whether a component with that ca_file accepts them, and exits with 1 if it does not.`,
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
						faults = append(faults, fmt.Errorf("components whose ca_file is %[2]s reject %[1]s: %[3]w", name, ca, err))
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
	cmd.Flags().StringVar(&ca, "ca", "", "CA certificates (PEM) to check against")
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
