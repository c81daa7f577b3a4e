package target

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/devcluster"
)

const defaultAddr = "http://127.0.0.1:8080"

const (
	// APIPath is the prefix of the paths of calls, unless they begin with /v1/ themselves.
	APIPath = "/v1/modules/scaimind"
	// CorePath is the prefix of the paths of Cores, their executions and decisions.
	CorePath = "/v1/modules/scaicore"
	// FlowPath is the path of the flows that the cluster keeps.
	FlowPath = "/v1/flows"
)

// Flags are the flags that select the cluster.
type Flags struct {
	Addr, Token, CaCert, Context string
	Stale                        bool
	// Warnings is the writer for warnings; nil: none.
	Warnings io.Writer
}

// Bind adds the flags to a command.
func (t *Flags) Bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.Addr, "addr", "", "address of the gateway (default: MIND_ADDR, else $MIND_DEV/dev.json, else the current context, else "+defaultAddr+")")
	f.StringVar(&t.Token, "token", "", "bearer token (default: MIND_TOKEN, else as for --addr)")
	f.StringVar(&t.CaCert, "ca-cert", "", "CA certificate (PEM) that verifies the gateway (default: MIND_CACERT)")
	f.StringVar(&t.Context, "context", "", "context of ~/.config/mind/config.yaml to use")
	f.BoolVar(&t.Stale, "stale", false, "read the state of one coordinator without asking the others; works without a leader")
}

// Resolve finds the cluster. Flags and variables come first; $MIND_DEV/dev.json or a context fill the rest.
func (t *Flags) Resolve() (Context, error) {
	found := Context{Addr: t.Addr, Token: t.Token, CACert: t.CaCert}
	if t.Context == "" {
		env := Context{Addr: os.Getenv("MIND_ADDR"), Token: os.Getenv("MIND_TOKEN"), CACert: os.Getenv("MIND_CACERT")}
		if t.Addr != "" && env.Addr != "" && !SameAddress(t.Addr, env.Addr) {
			env.Token = "" // It is for the cluster at MIND_ADDR.
		}
		found.Fill(env)
	}
	if found.Addr != "" {
		var err error
		if found.Addr, err = ParseAddress(found.Addr); err != nil {
			return found, exit.Misuse(err)
		}
	}
	if err := t.remembered(&found); err != nil {
		return found, err
	}
	if found.Addr == "" {
		found.Addr = defaultAddr
	}
	addr, err := ParseAddress(found.Addr)
	if err != nil {
		return found, exit.Misuse(err)
	}
	found.Addr, found.Token = addr, strings.TrimSpace(found.Token)
	if strings.ContainsFunc(found.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return found, exit.Misuse(errors.New("the token contains characters that no token has: give it with MIND_TOKEN or --token exactly as it was printed"))
	}
	return found, nil
}

// remembered fills in missing fields from the context or the `mind dev`. A token belongs to the cluster that issued it:
// it is not used with another address.
func (t *Flags) remembered(found *Context) error {
	dev := os.Getenv("MIND_DEV")
	switch {
	case t.Context != "":
		all, err := ReadContexts()
		if err != nil {
			return err
		}
		c, ok := all.Contexts[t.Context]
		if !ok {
			return exit.Misuse(fmt.Errorf("there is no context %q: `mind context` lists the existing ones", t.Context))
		}
		if found.Addr != "" && !SameAddress(found.Addr, c.Addr) {
			return exit.Misuse(fmt.Errorf("--addr is not the address of context %q, whose token must not go to another cluster: give --context or --addr", t.Context))
		}
		t.warnOfReaders(c)
		found.Fill(c)
	case dev != "":
		info, err := devcluster.ReadInfo(dev)
		if err != nil && found.Addr == "" {
			return fmt.Errorf("MIND_DEV is set, but no cluster runs there: start one with `mind dev --data-dir %s` (%w)", dev, err)
		}
		if err == nil && (found.Addr == "" || SameAddress(found.Addr, info.Gateway.URL)) {
			found.Fill(Context{Addr: info.Gateway.URL, Token: info.Token, Dev: dev})
		}
	case found.Addr != "" && found.Token != "":
		// No field is missing.
	default:
		all, err := ReadContexts()
		if err != nil {
			return err
		}
		c, ok := all.Contexts[all.Current]
		switch {
		case ok && (found.Addr == "" || SameAddress(found.Addr, c.Addr)):
			t.warnOfReaders(c)
			found.Fill(c)
		case !ok && all.Current != "" && found.Addr == "":
			return fmt.Errorf("the current context %q does not exist: `mind context` lists the existing ones, `mind context NAME` selects one", all.Current)
		}
	}
	return nil
}

// Fill takes missing fields from another context.
func (c *Context) Fill(from Context) {
	for _, f := range [][2]*string{{&c.Addr, &from.Addr}, {&c.Token, &from.Token}, {&c.CACert, &from.CACert}, {&c.Dev, &from.Dev}} {
		if *f[0] == "" {
			*f[0] = *f[1]
		}
	}
}

// warnOfReaders warns when the file of a token that is about to be used can be read by others.
func (t *Flags) warnOfReaders(c Context) {
	file, err := contextsFile()
	if err != nil || c.Token == "" || t.Warnings == nil {
		return
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(t.Warnings, "mind: %s holds tokens and others may read it: chmod 600 %s\n", file, file)
	}
}

// ParseAddress normalizes the address of a gateway, which may lack a scheme or contain the path of the API.
func ParseAddress(text string) (string, error) {
	plain := strings.TrimSpace(text)
	if ip := net.ParseIP(plain); ip != nil && strings.Contains(plain, ":") {
		return "", fmt.Errorf("%q lacks a port: an IPv6 address goes in brackets, as in http://[%s]:8080", text, plain)
	}
	if !strings.Contains(plain, "://") {
		plain = "http://" + plain
	}
	u, err := url.Parse(plain)
	if err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%q is not an address such as %s", text, defaultAddr)
	}
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(plain, "/"), APIPath), "/"), nil
}

// Console returns the address of the console. With the token, the page that it opens signs in with it; the part behind
// the # is never sent to a server.
func (c Context) Console(signIn bool) string {
	address := c.Addr + "/console/"
	if signIn && c.Token != "" {
		address += "#token=" + url.QueryEscape(c.Token)
	}
	return address
}

// SameAddress reports whether two strings are the same address.
func SameAddress(a, b string) bool {
	a, errA := ParseAddress(a)
	b, errB := ParseAddress(b)
	return errA == nil && errB == nil && a == b
}
