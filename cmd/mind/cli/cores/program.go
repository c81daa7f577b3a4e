package cores

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/flow"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/flow/forms"
)

// options are the flags that say what a Core is; create and update share them.
type options struct {
	file, name, mode, asks, notify string
	env, secrets                   []string
}

func (o *options) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "program as JSON or YAML, or a drawing of the designer; - is stdin")
	f.StringVar(&o.name, "name", "", "name for people; the slug follows from it")
	f.StringArrayVar(&o.env, "env", nil, "value of the environment, NAME=VALUE; repeatable")
	f.StringArrayVar(&o.secrets, "secret", nil, "secret value of the environment: NAME=@FILE, or NAME with the value on stdin; repeatable")
	f.StringVar(&o.mode, "mode", "", "event_driven (default), interactive, api or model")
	f.StringVar(&o.asks, "checkpoint-mode", "", "auto (default), visual_queue, or routed: a checkpoint without an assignee fails")
	f.StringVar(&o.notify, "notify-url", "", "URL that gets signed notices of decisions; none: that of the operator")
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"event_driven", "interactive", "api", "model"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("checkpoint-mode", cobra.FixedCompletions([]string{"auto", "visual_queue", "routed"}, cobra.ShellCompDirectiveNoFileComp))
}

// body is the body of the request. stdin is read for a program or for a secret, not for both.
func (o *options) body(stdin io.Reader) (map[string]any, error) {
	body := map[string]any{}
	for field, value := range map[string]string{"name": o.name, "runtime_mode": o.mode, "checkpoint_mode": o.asks, "notify_url": o.notify} {
		if value != "" {
			body[field] = value
		}
	}
	if o.file != "" {
		source, name, err := program(o.file, stdin)
		if err != nil {
			return nil, err
		}
		body["source"] = source
		if o.name == "" {
			body["name"] = name
		}
	}
	values, err := o.environment(stdin)
	if len(values) > 0 {
		body["environment"] = values
	}
	return body, err
}

// program reads a program of any form, and its name: the one in it, or that of the file. The gateway compiles it.
func program(file string, stdin io.Reader) (json.RawMessage, string, error) {
	var text []byte
	var err error
	if file == "-" {
		if text, err = all(stdin); err == nil {
			text, err = flow.JSON(file, text)
		}
	} else {
		text, err = flow.Read(file)
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the program: %w", err)
	}
	if !json.Valid(text) {
		return nil, "", fmt.Errorf("reading the program: %s is not a program: it is no JSON: `mind flow validate %s` says more", file, file)
	}
	_, name := forms.Of(text)
	if name == "" && file != "-" {
		name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	return text, name, nil
}

// environment reads the values of the environment.
func (o *options) environment(stdin io.Reader) (map[string]any, error) {
	values := map[string]any{}
	set := func(name string, value any) error {
		if _, twice := values[name]; twice {
			return exit.Misuse(fmt.Errorf("the environment has %s twice", name))
		}
		values[name] = value
		return nil
	}
	for _, e := range o.env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			return nil, exit.Misuse(fmt.Errorf("--env %s: write NAME=VALUE", e))
		}
		if err := set(name, value); err != nil {
			return nil, err
		}
	}
	fromStdin := o.file == "-"
	for _, s := range o.secrets {
		name, from, ok := strings.Cut(s, "=")
		var text []byte
		var err error
		switch file, isFile := strings.CutPrefix(from, "@"); {
		case name == "" || ok && !isFile:
			return nil, exit.Misuse(fmt.Errorf("--secret %s: write NAME=@FILE, or NAME and give the value on stdin: the command line is no place for a secret", name))
		case isFile:
			text, err = request.Text(file)
		case fromStdin:
			return nil, exit.Misuse(fmt.Errorf("--secret %s: stdin is read already: write %s=@FILE", name, name))
		default:
			fromStdin = true
			text, err = all(stdin)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the secret %s: %w", name, err)
		}
		value := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
		if value == "" {
			return nil, exit.Misuse(fmt.Errorf("--secret %s: there is no value: give it on stdin, or write %s=@FILE", name, name))
		}
		if !utf8.ValidString(value) {
			return nil, exit.Misuse(fmt.Errorf("--secret %s: the value is not UTF-8", name))
		}
		if err := set(name, map[string]any{"type": "secret", "value": value}); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// maxStdin is larger than any valid request.
const maxStdin = 8 << 20

func all(stdin io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(stdin, maxStdin+1))
	if err == nil && len(text) > maxStdin {
		err = errors.New("stdin has too much")
	}
	return text, err
}

// value reads a value that was given as JSON, as @FILE with JSON or YAML, or as - for stdin.
func value(flag, text string, stdin io.Reader) (json.RawMessage, error) {
	data := []byte(text)
	var err error
	switch file, isFile := strings.CutPrefix(text, "@"); {
	case isFile:
		data, err = flow.Read(file)
	case text == "-":
		data, err = all(stdin)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", flag, err)
	}
	if !json.Valid(data) {
		return nil, exit.Misuse(fmt.Errorf("%s %s: it is no JSON: text needs quotes, as in %s '\"text\"'; @FILE reads a file", flag, text, flag))
	}
	return data, nil
}
