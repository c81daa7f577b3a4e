// Package cli is the command line of Mind: it speaks REST to a gateway, and gRPC to the coordinators where an operator
// looks at the replicas themselves.
//
// Contract: exit code 0: done; 1: refused or failed; 2: misuse; 130: interrupted. `submit --wait` and `submit --follow` exit as
// the job did, and with 75 when it was canceled or lost. Answers go to stdout as a table, JSON or YAML; errors go to stderr, as
// one line that says what to do, or everything that is wrong with a request. Each write carries an idempotency key, so that it
// is safe to send it again when the connection breaks.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitFailed = 1
	exitMisuse = 2
	// exitNoResult is EX_TEMPFAIL: the job was canceled or lost, so there is no exit code to pass on.
	exitNoResult = 75
	// exitInterrupted is what shells say of a program that SIGINT ended.
	exitInterrupted = 130
)

// codeError ends the program with a code of its own; without err it says nothing.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// Misuse marks an error as one of the command line itself.
func Misuse(err error) error { return &codeError{code: exitMisuse, err: err} }

// Report writes the error, as one line, and returns the exit code.
func Report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	var coded *codeError
	if errors.As(err, &coded) && coded.err == nil {
		return coded.code
	}
	if coded == nil && isMisuse(err) {
		coded = &codeError{code: exitMisuse, err: err}
	}
	if err.Error() == context.Canceled.Error() {
		err = &stopped{"interrupted"}
	}
	fmt.Fprintln(w, "mind: "+oneLine(err))
	var interrupted *stopped
	switch {
	case coded != nil:
		return coded.code
	case errors.As(err, &interrupted):
		return exitInterrupted
	}
	return exitFailed
}

// isMisuse knows the errors that cobra makes by itself, which have no type.
func isMisuse(err error) bool {
	for _, start := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "required flag", "invalid argument"} {
		if strings.HasPrefix(err.Error(), start) {
			return true
		}
	}
	return false
}

// oneLine joins the lines of an error, save for what is quoted from a log, which keeps them.
func oneLine(err error) string {
	text := strings.TrimSpace(err.Error())
	if strings.Contains(text, "the end of its log:\n") {
		return text
	}
	return shown(strings.ReplaceAll(text, "\n", "; "))
}

// AddTo adds the commands to the root.
func AddTo(root *cobra.Command, version string) {
	root.AddGroup(
		&cobra.Group{ID: "jobs", Title: "Jobs:"},
		&cobra.Group{ID: "cluster", Title: "Cluster:"},
	)
	groups := map[string][]*cobra.Command{
		"jobs": {
			newSubmit(), newJobs(), newJob(), newLogs(), newMetrics(), newCancel(), newPause(), newResume(), newRetry(),
			newExplain(), newCheckpoints(), newEvaluate(), newEvaluations(), newEvaluation(),
		},
		"cluster": {newNodes(), newDrain(), newEnable(), newNode(), newQueue(), newQueues(), newTop(), newEvents(), newRaft(), newToken(), newQuota(), newAudit(), newData(), newLaunchers(), newTLS(), newChaos()},
		"":        {newContext(), newVersion(version)},
	}
	for group, commands := range groups {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	explainArguments(root)
	refuseUnknownHelp(root)
	root.SetFlagErrorFunc(flagMisuse)
}

func newVersion(version string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  mind version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "" || output == "table" {
				fmt.Fprintln(cmd.OutOrStdout(), version)
				return nil
			}
			return printValue(cmd.OutOrStdout(), output, map[string]string{"version": version})
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "table, json or yaml")
	return cmd
}

// session is what a command that speaks REST works with: its flags, and the client that they lead to.
type session struct {
	target
	output string
}

// rest makes a command that speaks REST; run gets a client.
func rest(cmd *cobra.Command, run func(ctx context.Context, cmd *cobra.Command, c *client, s *session, args []string) error) *cobra.Command {
	s := &session{}
	s.bind(cmd)
	cmd.Flags().StringVarP(&s.output, "output", "o", "table", "table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if s.output != "table" && s.output != "json" && s.output != "yaml" {
			return Misuse(fmt.Errorf("-o %s: it must be table, json or yaml", s.output))
		}
		s.warnings = cmd.ErrOrStderr()
		c, err := s.client()
		if err != nil {
			return err
		}
		return run(cmd.Context(), cmd, c, s, args)
	}
	return cmd
}
