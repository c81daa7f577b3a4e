// Package flow implements `mind flow`: it checks and compiles programs of flows, runs them on this machine alone, on recorded answers,
// and keeps drawings in the cluster: their versions, the rights on them, and their deployments.
package flow

import (
	"bytes"
	"encoding/json"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
)

// Command returns `mind flow`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "flow",
		Aliases: []string{"scaiflow"},
		Short:   "Check, compile and run flows on this machine, keep drawings in the cluster, deploy them",
		Long: `Checks and compiles flows, and runs them on this machine on recorded answers and in virtual time: validate, run, compile and
import need no cluster. The other verbs keep drawings in a cluster, with their versions and the rights on them, and deploy them to Cores
(docs/use/designer.md). FLOW is then the id of a flow, or its name as it is or in the form of a slug (ticket-triage).

A flow is a program, which is JSON or YAML of the same shape (docs/use/flows.md), or a drawing of the designer, as JSON or as the YAML
that was compiled from it (docs/use/drawings.md).`,
		Example: `  mind flow validate train.json
  mind flow run train.json --answers answers.json
  mind flow create -f triage.flow.json
  mind flow deploy ticket-triage`,
	}
	cmd.AddCommand(newValidate(), newRun(), newCompile(), newImport())
	cmd.AddCommand(kept.Make()...)
	return cmd
}

// Read reads a JSON or YAML file, as JSON.
func Read(file string) ([]byte, error) {
	text, err := request.Text(file)
	if err != nil {
		return nil, err
	}
	return JSON(file, text)
}

// JSON is Read for text that was read from a file of the given name.
func JSON(file string, text []byte) ([]byte, error) {
	if isJSON(file, text) {
		return text, nil
	}
	object, err := request.Decode("the file", text)
	if err != nil {
		return nil, &unreadableError{err}
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, &unreadableError{err}
	}
	return data, nil
}

// isJSON says whether a file is not to be read as YAML: positions in messages are then those of the file.
func isJSON(file string, text []byte) bool {
	switch filepath.Ext(file) {
	case ".json":
		return true
	case ".yaml", ".yml":
		return false
	}
	return bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))
}

// unreadableError says that the contents of a file are neither JSON nor YAML.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }
