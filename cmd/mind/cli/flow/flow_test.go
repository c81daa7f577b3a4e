package flow

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/flow/rehearse"
)

// typed runs a command line without a terminal, and returns the outputs and the exit code.
func typed(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := &cobra.Command{Use: "mind", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Command())
	var out, complaints bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&complaints)
	root.SetIn(strings.NewReader(""))
	root.SetArgs(append([]string{"flow"}, args...))
	code = exit.Report(&complaints, root.ExecuteContext(context.Background()))
	return out.String(), complaints.String(), code
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const (
	wrong = `{"schema_version": "0.1", "name": "p", "flows": [{"name": "main", "body": [
		{"kind": "wait", "id": "nap", "node_id": "node_1"},
		{"kind": "try", "id": "t", "body": [{"kind": "wait", "id": "w", "duration": "1s"}]}]}]}`
	fine = `
schema_version: "0.1"
name: p
flows:
  - name: main
    body:
      - {kind: compute, id: train, action: job, spec: {name: "{{input.name}}"}}
      - {kind: rigid, id: end, statements: [{kind: emit, event: trained, data: {loss: "{{train.loss}}"}}, {kind: return, value: train.loss}]}
`
)

func TestValidate_printsALineForEachFinding(t *testing.T) {
	path := file(t, "wrong.json", wrong)
	out, complaints, code := typed(t, "validate", path, file(t, "fine.yaml", fine))
	require.Equal(t, 1, code)
	require.Empty(t, complaints)
	require.Equal(t, path+": error: block nap (node node_1): a wait has one of duration, until, event and callback, and this one has 0 [BAD_WAIT]\n"+
		path+": warning: block t: the try has neither a catch nor a finally [USELESS_TRY]\n", out)

	out, _, code = typed(t, "validate", file(t, "fine.yaml", fine))
	require.Equal(t, 0, code)
	require.Empty(t, out)
}

func TestValidate_json(t *testing.T) {
	path := file(t, "fine.yaml", fine)
	out, _, code := typed(t, "validate", path, "-o", "json")
	require.Equal(t, 0, code)
	require.JSONEq(t, `{"file": "`+path+`", "ok": true, "diagnostics": []}`, out)
	bad := file(t, "wrong.json", `{"schema_version": "0.1", "name": "p", "flows": [{"name": "main", "body": [{"kind": "if", "id": "d", "cases": 5}]}]}`)
	out, _, code = typed(t, "validate", path, bad, "-o", "json")
	require.Equal(t, 1, code)
	require.JSONEq(t, `{"files": [{"file": "`+path+`", "ok": true, "diagnostics": []}, {"file": "`+bad+`", "ok": false, "diagnostics": [
		{"severity": "error", "code": "SYNTAX", "message": "cases may not be a number", "block_id": "d"}]}]}`, out)
}

func TestValidate_aFileThatCannotBeReadIsOneFinding(t *testing.T) {
	for text, says := range map[string]string{
		`{"name": `: "error: this is no JSON: it ends too early [SYNTAX]",
		"a: [":      "error: the file is neither YAML nor JSON: ",
		"- a":       "error: the file must hold an object such as {name: ...}, and nothing else [SYNTAX]",
	} {
		path := file(t, "program", text)
		out, complaints, code := typed(t, "validate", path)
		require.Equal(t, 1, code)
		require.Empty(t, complaints)
		require.True(t, strings.HasPrefix(out, path+": "+says), out)
		require.Equal(t, 1, strings.Count(out, "\n"), out)
	}
}

func TestMisuse(t *testing.T) {
	path := file(t, "fine.yaml", fine)
	for says, args := range map[string][]string{
		"requires at least 1 arg":                                         {"validate"},
		"-o xml: it must be table, json or yaml":                          {"validate", path, "-o", "xml"},
		"--flow other: the program has the flows main":                    {"run", path, "--flow", "other"},
		"--input: this is no JSON":                                        {"run", path, "--input", "{"},
		"--cancel-after soon: it must be a time such as 90s, 2h or 3d":    {"run", path, "--cancel-after", "soon"},
		`the answers have "trian", and no flow of the program has a step`: {"run", path, "--answers", file(t, "a.json", `{"trian": {}}`)},
		"answer 2 of it: an error has a code":                             {"run", path, "--answers", file(t, "a.json", `{"train": [{}, {"error": {}}]}`)},
	} {
		_, complaints, code := typed(t, args...)
		require.Equal(t, 2, code, "%v: %s", args, complaints)
		require.Contains(t, complaints, says)
	}
	_, complaints, code := typed(t, "validate", "nowhere.json")
	require.Equal(t, 1, code)
	require.Contains(t, complaints, "open nowhere.json: no such file")
}

func TestRun_printsTheStepsAndTheOutput(t *testing.T) {
	path := file(t, "program.json", `{"schema_version": "0.1", "name": "p", "flows": [
		{"name": "main", "body": [
			{"kind": "compute", "id": "train", "action": "job", "spec": {}, "retry": {"max": 1, "backoff": "30s"}},
			{"kind": "foreach", "id": "each", "items": "[1]", "body": [{"kind": "core_call", "id": "twice", "target": "self", "flow": "double", "input_bindings": {"n": "item"}}]},
			{"kind": "rigid", "id": "end", "statements": [{"kind": "emit", "event": "over", "data": "{{train.loss}}"}, {"kind": "return", "value": "each"}]}]},
		{"name": "double", "body": [
			{"kind": "wait", "id": "nap", "duration": "12h"},
			{"kind": "rigid", "id": "product", "statements": [{"kind": "return", "value": "input.n * 2"}]}]}]}`)
	answers := file(t, "answers.yaml", "train: [{error: {code: NODE_LOST, message: gone, retryable: true}}, {after: 90m, result: {loss: 0.3}}, {}]\n")
	out, complaints, code := typed(t, "run", path, "--answers", answers, "--events")
	require.Equal(t, 0, code, complaints)
	require.Equal(t, "[\n  2\n]\n", out)
	require.Equal(t, `
        +0s  train: compute
        +0s  train: failed, and is tried again: NODE_LOST: gone
       +30s  train: compute, attempt 2
  +1h30m30s  train: = {"loss":0.3}
  +1h30m30s  each: foreach
  +1h30m30s    twice[0]: core_call
  +1h30m30s      twice[0]/nap: wait
 +13h30m30s      twice[0]/product: rigid
 +13h30m30s      twice[0]/product: = 2
 +13h30m30s    twice[0]: = 2
 +13h30m30s  each: = [2]
 +13h30m30s  end: rigid
 +13h30m30s  end: emits over 0.3
 +13h30m30s  end: = [2]
not all answers were used: train
`, "\n"+complaints)
}

func TestRun_saysWhichAnswerIsMissing(t *testing.T) {
	path := file(t, "program.yaml", `{schema_version: "0.1", name: p, flows: [{name: main, body: [
		{kind: checkpoint, id: ask, prompt: "Ship {{input.name}}?", options: [yes, no]}]}]}`)
	_, complaints, code := typed(t, "run", path, "--input", `{"name": "m1"}`)
	require.Equal(t, 1, code)
	require.Equal(t, `        +0s  ask: checkpoint
mind: the step ask waits for a decision (Ship m1? yes or no), and the answers have none for it: add "ask": {"resolution":"yes"}
`, complaints)
	_, complaints, code = typed(t, "run", path, "--answers", file(t, "a.json", `{"ask": {"resolution": "perhaps"}}`))
	require.Equal(t, 1, code)
	require.Contains(t, complaints, "mind: the answers for ask: the resolution perhaps is no option of it: yes, no\n")
}

func TestRun_aFlowThatFails(t *testing.T) {
	path := file(t, "program.json", `{"schema_version": "0.1", "name": "p", "flows": [{"name": "main", "body": [
		{"kind": "rigid", "id": "end", "statements": [{"kind": "fail", "code": "NO_GOOD", "message": "loss {{input.loss}}"}]}]}]}`)
	out, complaints, code := typed(t, "run", path, "--input", "@"+file(t, "in.json", `{"loss": 9}`))
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.Contains(t, complaints, "mind: the flow failed at the step end: NO_GOOD: loss 9\n")
	out, _, code = typed(t, "run", path, "--input", `{"loss": 9}`, "-o", "json")
	require.Equal(t, 1, code)
	require.Contains(t, out, `"status": "failed"`)
	_, complaints, code = typed(t, "run", file(t, "wrong.json", wrong))
	require.Equal(t, 1, code)
	require.Contains(t, complaints, "[BAD_WAIT]")
}

func TestRun_canBeCanceled(t *testing.T) {
	path := file(t, "program.json", `{"schema_version": "0.1", "name": "p", "flows": [{"name": "main", "body": [
		{"kind": "wait", "id": "nap", "duration": "1d"}], "on_cancel": [{"kind": "debug", "id": "stop"}]}]}`)
	_, complaints, code := typed(t, "run", path, "--cancel-after", "2h")
	require.Equal(t, 1, code)
	require.Equal(t, `
        +0s  nap: wait
        +2h  stop: debug
mind: the flow was canceled
`, "\n"+complaints)
}

func TestPrompt_asksUntilTheAnswerFits(t *testing.T) {
	m, found, err := load(file(t, "program.json", `{"schema_version": "0.1", "name": "p", "flows": [{"name": "main", "body": [
		{"kind": "compute", "id": "train", "action": "job", "spec": {}},
		{"kind": "checkpoint", "id": "ask", "prompt": "Ship it?", "options": [{"id": "yes", "label": "Ship it"}, "no"]},
		{"kind": "rigid", "id": "end", "statements": [{"kind": "return", "value": "[train.loss, ask.resolution]"}]}]}]}`))
	require.NoError(t, err)
	require.Empty(t, found)
	var shown bytes.Buffer
	p := newPrompt(t.Context(), strings.NewReader("{\n{\"loss\": 1}\nperhaps\nyes\n"), &shown)
	outcome, err := rehearse.Flow(m, rehearse.Options{Ask: p.ask})
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), "yes"}, outcome.Output)
	require.Equal(t, "train waits for the end of a job (job)\nits result, as JSON: this is no JSON: unexpected EOF\nits result, as JSON: "+
		"ask waits for a decision (Ship it? yes or no)\nyes (Ship it), no: the resolution perhaps is no option of it: yes, no\nyes (Ship it), no: ", shown.String())

	_, err = rehearse.Flow(m, rehearse.Options{Ask: newPrompt(t.Context(), strings.NewReader(""), &shown).ask})
	require.ErrorAs(t, err, new(*rehearse.Missing), "the input has ended")
}

func TestRun_json(t *testing.T) {
	out, _, code := typed(t, "run", file(t, "fine.yaml", fine), "--input", `{"name": "a"}`, "--answers", file(t, "a.json", `{"train": {"loss": 0.3}}`), "-o", "json")
	require.Equal(t, 0, code)
	require.JSONEq(t, `{"status": "completed", "output": 0.3, "error": null, "steps": [
		{"step": "train", "kind": "compute", "attempt": 1, "status": "completed", "began": "0s", "ended": "0s", "result": {"loss": 0.3}},
		{"step": "end", "kind": "rigid", "attempt": 1, "status": "completed", "began": "0s", "ended": "0s", "result": 0.3}]}`, out)
}
