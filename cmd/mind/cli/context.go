package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/durable"
)

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
	if err != nil {
		return all, err
	}
	if len(text) == 0 {
		// A version before this one left such a file after a power cut. To go on as if there were no contexts could reach another cluster.
		return all, fmt.Errorf("%s is empty: put a copy of it back, or remove it and make it anew with `mind context`", file)
	}
	// A misspelt key would leave out an address or a token silently.
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return all, fmt.Errorf("%s cannot be used: %w: repair it, or remove it and make a new one with `mind context`", file, err)
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
	if err := durable.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(file, text, 0o600)
}

func newContext() *cobra.Command {
	var c Context
	var output string
	cmd := &cobra.Command{
		Use:   "context [NAME]",
		Short: "List the clusters that you know, or use another one",
		Long:  "Without a name it lists the contexts of ~/.config/mind/config.yaml. With one it uses that from now on; with --set-addr it makes it first, and with\n--set-token and --set-ca-cert it changes it; a context that gets another address keeps no token.",
		Example: `  mind context
  mind context prod --set-addr https://mind.example.org --set-token TOKEN
  mind context dev`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "table" && output != "json" && output != "yaml" {
				return Misuse(fmt.Errorf("-o %s: it must be table, json or yaml", output))
			}
			all, err := readContexts()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return all.list(cmd.OutOrStdout(), output)
			}
			known, ok := all.Contexts[args[0]]
			switch {
			case strings.TrimSpace(args[0]) == "":
				return Misuse(errors.New("a context must have a name"))
			case c == (Context{}) && ok:
				all.Current = args[0]
				return all.write()
			case !ok && c.Addr == "":
				return fmt.Errorf("there is no context %q: make it with --set-addr and --set-token", args[0])
			case c.Addr == "" || sameAddress(c.Addr, known.Addr):
				c.fill(known)
			}
			if c.Addr, err = address(c.Addr); err != nil {
				return Misuse(err)
			}
			return SaveContext(args[0], c)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml; tokens are not shown")
	cmd.Flags().StringVar(&c.Addr, "set-addr", "", "address of the gateway")
	cmd.Flags().StringVar(&c.Token, "set-token", "", "bearer token")
	cmd.Flags().StringVar(&c.CACert, "set-ca-cert", "", "certificate of the authority that signed the gateway's")
	return cmd
}

// list shows the contexts, and no tokens.
func (all contexts) list(w io.Writer, output string) error {
	type line struct {
		Name    string `json:"name"`
		Addr    string `json:"addr"`
		CACert  string `json:"ca_cert"`
		Dev     string `json:"dev"`
		Current bool   `json:"current"`
	}
	lines := []line{}
	t := newTable(w, "", "NAME", "ADDR")
	for _, name := range sortedKeys(all.Contexts) {
		c, mark := all.Contexts[name], ""
		if name == all.Current {
			mark = "*"
		}
		t.row(mark, name, c.Addr)
		lines = append(lines, line{name, c.Addr, c.CACert, c.Dev, name == all.Current})
	}
	if output != "table" {
		return printValue(w, output, map[string]any{"contexts": lines})
	}
	return t.flush()
}
