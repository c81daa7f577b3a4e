package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/devcluster"
)

// typed returns the error of a command line, without running it.
func typed(args []string) error {
	cmd, rest, err := newRoot().Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestDocs_everyCommandLineCanBeTyped(t *testing.T) {
	seen := 0
	for _, e := range examples(t) {
		if filepath.Base(e.words[0]) == "mind" {
			seen++
			require.NoErrorf(t, typed(e.words[1:]), "%s", e)
		}
	}
	require.Greater(t, seen, 40)
	require.Error(t, typed([]string{"submit", "--gpu", "1", "true"}))
	require.Error(t, typed([]string{"job"}))

	walk(newRoot(), func(c *cobra.Command) {
		s := &shell{text: c.Example}
		s.commands(0)
		for _, words := range s.found {
			if words[0] == "mind" {
				require.NoErrorf(t, typed(words[1:]), "the example of %s: %v", c.CommandPath(), words)
			}
		}
	})
}

var (
	codeSpan = regexp.MustCompile("`mind ([a-z][^`]*)`")
	longFlag = regexp.MustCompile(`--[a-z][a-z-]+`)
)

// In running text arguments are often left out, but commands and flags must exist.
func TestDocs_nameOnlyCommandsAndFlagsThatExist(t *testing.T) {
	seen, wrong := 0, []string{}
	for _, file := range pages(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, span := range codeSpan.FindAllStringSubmatch(string(text), -1) {
			seen++
			plain := strings.ReplaceAll(span[1], `\|`, "|")
			if plain == "device probe" || plain == "shim" {
				continue // names of processes, which users do not type
			}
			ours, _, _ := strings.Cut(plain, " -- ")
			cmd, rest, err := newRoot().Find(strings.Fields(ours))
			if err != nil || !cmd.HasParent() || cmd.HasSubCommands() && len(rest) > 0 && regexp.MustCompile(`^[a-z]+$`).MatchString(rest[0]) {
				wrong = append(wrong, fmt.Sprintf("%s: `mind %s` is no command", file, plain))
				continue
			}
			cmd.InitDefaultHelpFlag()
			for _, flag := range longFlag.FindAllString(ours, -1) {
				if cmd.Flags().Lookup(strings.TrimPrefix(flag, "--")) == nil {
					wrong = append(wrong, fmt.Sprintf("%s: `mind %s`: there is no %s", file, plain, flag))
				}
			}
		}
	}
	require.Empty(t, wrong)
	require.Greater(t, seen, 50)
}

// request parses a call of curl, or of the shell function for it in docs/use/rest.md.
func request(e example, base string) (method, address, body string, headers map[string]string, ok bool) {
	if e.words[0] != "curl" && e.words[0] != "call" {
		return
	}
	headers, query := map[string]string{}, url.Values{}
	get := false
	for i := 1; i < len(e.words); i++ {
		w := e.words[i]
		next := func() string {
			if i++; i < len(e.words) {
				return e.words[i]
			}
			return ""
		}
		switch {
		case w == "-X":
			method = next()
		case w == "-d":
			body = next()
		case w == "-G":
			get = true
		case w == "-H":
			name, value, _ := strings.Cut(next(), ":")
			headers[name] = strings.TrimSpace(value)
		case w == "--data-urlencode":
			name, value, _ := strings.Cut(next(), "=")
			query.Add(name, value)
		case !strings.HasPrefix(w, "-"):
			address = w
		}
	}
	for _, name := range []string{"$API", "$MIND_ADDR/v1/modules/scaimind", "$MIND/v1/modules/scaimind"} {
		address = strings.Replace(address, name, base+"/v1/modules/scaimind", 1)
	}
	address = strings.Replace(strings.Replace(address, "$MIND_ADDR", base, 1), "$MIND", base, 1)
	if get {
		address += "?" + query.Encode()
	}
	if method == "" {
		if method = http.MethodGet; body != "" {
			method = http.MethodPost
		}
	}
	return method, address, body, headers, strings.HasPrefix(address, base)
}

// Each request in the documentation is sent to a real gateway. The answer may be that the job does not exist, but not
// that the path, the method or the body is invalid.
func TestDocs_everyRequestIsTaken(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a cluster")
	}
	cluster, err := devcluster.Start(t.Context(), devcluster.Options{
		Dir: t.TempDir(), Coordinators: 1, Agents: 2, HTTP: "127.0.0.1:0", InProcess: runInProcess,
		ReadyWithin: 2 * time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	info := cluster.Info()
	send := func(what, method, address, body string, headers map[string]string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
		require.NoError(t, err, what)
		for name, value := range headers {
			req.Header.Set(name, value)
		}
		req.Header.Set("Authorization", "Bearer "+info.Token)
		answer, err := http.DefaultClient.Do(req)
		require.NoError(t, err, what)
		defer answer.Body.Close()
		if answer.StatusCode < 300 {
			return
		}
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err, what)
		require.Containsf(t, []int{http.StatusNotFound, http.StatusConflict}, answer.StatusCode, "%s: %s", what, text)
		require.NotContainsf(t, string(text), "there is no /", "%s", what)
	}
	seen := 0
	for _, e := range examples(t) {
		if method, address, body, headers, ok := request(e, info.Gateway.URL); ok {
			seen++
			send(e.String(), method, address, body, headers)
		}
	}
	require.Greater(t, seen, 10)

	jobs := 0
	for _, file := range []string{"cli.md", "quickstart.md", "launchers.md", "data.md", "evaluations.md"} {
		text, err := os.ReadFile("../../docs/use/" + file)
		require.NoError(t, err)
		for _, block := range regexp.MustCompile("(?ms)^```ya?ml[^\n]*\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
			var job map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(block[1]), &job), "%s: %s", file, block[1])
			if job["resource_config"] == nil || job["name"] == nil {
				continue
			}
			body, err := json.Marshal(job)
			require.NoError(t, err)
			jobs++
			send(file, http.MethodPost, info.Gateway.URL+"/v1/modules/scaimind/jobs", string(body), nil)
		}
	}
	require.Positive(t, jobs)
}
