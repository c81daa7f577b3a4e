package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/devcluster"
)

const defaultAddr = "http://127.0.0.1:8080"

// Context says how to reach one cluster.
type Context struct {
	Addr   string `yaml:"addr,omitempty"`
	Token  string `yaml:"token,omitempty"`
	CACert string `yaml:"ca_cert,omitempty"`
	// Dev is the data directory of a `mind dev`.
	Dev string `yaml:"dev,omitempty"`
}

// contexts is the file ~/.config/mind/config.yaml.
type contexts struct {
	Current  string             `yaml:"current"`
	Contexts map[string]Context `yaml:"contexts"`
}

func contextsFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "mind", "config.yaml"), nil
}

func readContexts() (contexts, error) {
	all := contexts{Contexts: map[string]Context{}}
	file, err := contextsFile()
	if err != nil {
		return all, nil // no home: no contexts
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = yaml.Unmarshal(text, &all)
	}
	if err != nil {
		return all, fmt.Errorf("reading %s: %w", file, err)
	}
	return all, nil
}

// SaveContext writes a context into the user's configuration and makes it the current one.
func SaveContext(name string, c Context) error {
	all, err := readContexts()
	if err != nil {
		return err
	}
	if all.Contexts == nil {
		all.Contexts = map[string]Context{}
	}
	all.Contexts[name], all.Current = c, name
	return all.write()
}

func (all contexts) write() error {
	file, err := contextsFile()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	aside := file + ".new"
	if err := os.WriteFile(aside, text, 0o600); err != nil {
		return err
	}
	return os.Rename(aside, file)
}

// target are the flags that say which cluster is meant.
type target struct {
	addr, token, caCert, context string
}

func (t *target) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.addr, "addr", "", "address of the gateway (default: MIND_ADDR, else $MIND_DEV/dev.json, else the current context, else "+defaultAddr+")")
	f.StringVar(&t.token, "token", "", "bearer token (default: MIND_TOKEN, else as for --addr)")
	f.StringVar(&t.caCert, "ca-cert", "", "certificate of the authority that signed the gateway's (default: MIND_CACERT)")
	f.StringVar(&t.context, "context", "", "context of ~/.config/mind/config.yaml to use")
}

// resolve finds the cluster: what flags and variables leave open comes from $MIND_DEV/dev.json or from a context.
func (t *target) resolve() (Context, error) {
	found := Context{Addr: t.addr, Token: t.token, CACert: t.caCert}
	fill := func(c Context) {
		for _, f := range [][2]*string{{&found.Addr, &c.Addr}, {&found.Token, &c.Token}, {&found.CACert, &c.CACert}, {&found.Dev, &c.Dev}} {
			if *f[0] == "" {
				*f[0] = *f[1]
			}
		}
	}
	all, err := readContexts()
	if err != nil {
		return found, err
	}
	if t.context != "" {
		c, ok := all.Contexts[t.context]
		if !ok {
			return found, Misuse(fmt.Errorf("there is no context %q: `mind context` lists those that are there", t.context))
		}
		fill(c)
	} else {
		fill(Context{Addr: os.Getenv("MIND_ADDR"), Token: os.Getenv("MIND_TOKEN"), CACert: os.Getenv("MIND_CACERT")})
		dev := os.Getenv("MIND_DEV")
		if c, ok := all.Contexts[all.Current]; dev == "" && ok {
			// A token is for the cluster that gave it: another address gets none of it.
			if found.Addr == "" || found.Addr == c.Addr {
				fill(c)
			}
		} else if dev != "" {
			info, err := devcluster.ReadInfo(dev)
			if err != nil && found.Addr == "" {
				return found, fmt.Errorf("MIND_DEV is set, but there is no cluster: start one with `mind dev --data-dir %s` (%w)", dev, err)
			}
			if err == nil && (found.Addr == "" || found.Addr == info.Gateway.URL) {
				fill(Context{Addr: info.Gateway.URL, Token: info.Token, Dev: dev})
			}
		}
	}
	if found.Addr == "" {
		found.Addr = defaultAddr
	}
	if !strings.Contains(found.Addr, "://") {
		found.Addr = "http://" + found.Addr
	}
	if u, err := url.Parse(found.Addr); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return found, Misuse(fmt.Errorf("%q is not an address such as %s", found.Addr, defaultAddr))
	}
	found.Addr = strings.TrimRight(found.Addr, "/")
	return found, nil
}

func (t *target) client() (*client, error) {
	found, err := t.resolve()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if found.CACert != "" {
		text, err := os.ReadFile(found.CACert)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate of the authority: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", found.CACert)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &client{base: found.Addr, token: found.Token, http: &http.Client{Transport: transport}}, nil
}

func newContext() *cobra.Command {
	var c Context
	cmd := &cobra.Command{
		Use:   "context [NAME]",
		Short: "List the clusters that you know, or use another one",
		Long:  "Without a name it lists the contexts of ~/.config/mind/config.yaml. With one it uses that from now on; with --set-addr it makes or changes it first.",
		Example: `  mind context
  mind context prod --set-addr https://mind.example.org --set-token TOKEN
  mind context dev`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := readContexts()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				t := newTable(cmd.OutOrStdout(), "", "NAME", "ADDR")
				names := make([]string, 0, len(all.Contexts))
				for name := range all.Contexts {
					names = append(names, name)
				}
				slices.Sort(names)
				for _, name := range names {
					mark := ""
					if name == all.Current {
						mark = "*"
					}
					t.row(mark, name, all.Contexts[name].Addr)
				}
				return t.flush()
			}
			if c.Addr != "" || c.Token != "" {
				return SaveContext(args[0], c)
			}
			if _, ok := all.Contexts[args[0]]; !ok {
				return fmt.Errorf("there is no context %q: make it with --set-addr and --set-token", args[0])
			}
			all.Current = args[0]
			return all.write()
		},
	}
	cmd.Flags().StringVar(&c.Addr, "set-addr", "", "address of the gateway")
	cmd.Flags().StringVar(&c.Token, "set-token", "", "bearer token")
	cmd.Flags().StringVar(&c.CACert, "set-ca-cert", "", "certificate of the authority that signed the gateway's")
	return cmd
}
