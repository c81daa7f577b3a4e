package main

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// file is a file as it is to be written, by its path from the root.
type file struct {
	path string
	text string
}

// files makes all files of a command, and writes none.
func (c *command) files(root string) ([]file, error) {
	var all []file
	for _, made := range []struct{ template, path string }{
		{"verb.go.tmpl", "fsm/" + c.Dir + "/" + c.Snake + ".go"},
		{"verb_test.go.tmpl", "fsm/" + c.Snake + "_test.go"},
		{"service.go.tmpl", "coordinator/" + c.Server + "/" + c.Snake + ".go"},
		{"cli.go.tmpl", "cmd/mind/cli/" + c.CLI + "/" + c.Snake + ".go"},
		{"cli_test.go.tmpl", "cmd/mind/cli/" + c.CLI + "/" + c.Snake + "_test.go"},
	} {
		if _, err := os.Stat(filepath.Join(root, made.path)); err == nil {
			return nil, fmt.Errorf("there is a file %s", made.path)
		}
		text, err := c.fill(made.template)
		if err != nil {
			return nil, err
		}
		source, err := format.Source([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("formatting %s: %w", made.path, err)
		}
		all = append(all, file{made.path, string(source)})
	}
	for _, changed := range []struct {
		path string
		edit func(text string) (string, error)
	}{
		{"api/scaimind/v1/" + c.Proto, c.editProto},
		{"conformance/endpoints.go", c.editEndpoints},
		{"docs/develop/fsm.md", c.editCommands},
		{"docs/use/rest.md", c.editREST},
		{"docs/use/cli.md", c.editCLI},
	} {
		text, err := os.ReadFile(filepath.Join(root, changed.path))
		if err != nil {
			return nil, err
		}
		edited, err := changed.edit(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", changed.path, err)
		}
		all = append(all, file{changed.path, edited})
	}
	return all, nil
}

func write(root string, files []file) error {
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(root, f.path), []byte(f.text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) fill(name string) (string, error) {
	t, err := template.New(name).Funcs(template.FuncMap{"mark": func() string { return mark }}).ParseFS(templates, "templates/"+name)
	if err != nil {
		return "", fmt.Errorf("reading the template %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, c); err != nil {
		return "", fmt.Errorf("filling in the template %s: %w", name, err)
	}
	return out.String(), nil
}

// editProto adds the call at the end of its service, and its messages at the end of the file.
func (c *command) editProto(text string) (string, error) {
	_, service, found := strings.Cut(text, "\nservice "+c.Service+" {\n")
	if !found {
		return "", fmt.Errorf("there is no service %s", c.Service)
	}
	end := len(text) - len(service) + strings.Index(service, "\n}\n") + 1
	call, err := c.fill("rpc.proto.tmpl")
	if err != nil {
		return "", err
	}
	messages, err := c.fill("messages.proto.tmpl")
	return text[:end] + call + text[end:] + "\n" + messages, err
}

// editEndpoints adds the endpoint after the last one of the same noun.
func (c *command) editEndpoints(text string) (string, error) {
	row, err := c.fill("endpoint.go.tmpl")
	if err != nil {
		return "", err
	}
	if c.Second != "" {
		second := *c
		second.Route = c.Second
		more, err := second.fill("endpoint.go.tmpl")
		if err != nil {
			return "", err
		}
		row += more
	}
	return after(text, regexp.MustCompile(`(?m)^\t\{name: "[A-Z]+ `+regexp.QuoteMeta(c.Path)+`["/].*\n`), row)
}

// editCommands adds a row to the table of commands.
func (c *command) editCommands(text string) (string, error) {
	row, err := c.fill("command.md.tmpl")
	if err != nil {
		return "", err
	}
	return after(text, regexp.MustCompile("(?m)^\\| \\d+ \\| `[A-Z][A-Za-z]+` \\| .*\n"), row)
}

// editREST adds the route to the table of its noun, and the action to the list of those in the audit log.
func (c *command) editREST(text string) (string, error) {
	row, err := c.fill("route.md.tmpl")
	if err != nil {
		return "", err
	}
	text, err = after(text, regexp.MustCompile("(?m)^\\| .*`"+regexp.QuoteMeta(c.Path)+"[`/].*\n"), row)
	if err != nil {
		return "", err
	}
	from := strings.Index(text, "There is one record for each action of a user")
	if from < 0 {
		return "", fmt.Errorf("the list of the actions in the audit log is gone")
	}
	to := from + strings.Index(text[from:], "\n\n")
	actions := regexp.MustCompile("`" + c.name + "\\.[a-z]+`(,\\s+`\\.[a-z]+`)*")
	list, err := after(text[from:to], actions, ", `."+c.Verb+"`")
	if err != nil {
		return "", err
	}
	return text[:from] + wrapped(list) + text[to:], nil
}

// editCLI adds the verb after the last one of its noun.
func (c *command) editCLI(text string) (string, error) {
	row, err := c.fill("cli.md.tmpl")
	if err != nil {
		return "", err
	}
	return after(text, regexp.MustCompile("(?m)^- .*"+regexp.QuoteMeta(c.Beside)+".*\n(  .*\n)*"), row)
}

// after adds a text after the last match of a pattern.
func after(text string, pattern *regexp.Regexp, add string) (string, error) {
	all := pattern.FindAllStringIndex(text, -1)
	if all == nil {
		return "", fmt.Errorf("nothing matches %s, after which a row would be added: write it by hand", pattern)
	}
	at := all[len(all)-1][1]
	return text[:at] + add + text[at:], nil
}

// wrapped breaks a paragraph into lines of at most 120 characters.
func wrapped(paragraph string) string {
	var out strings.Builder
	column := 0
	for _, word := range strings.Fields(paragraph) {
		switch {
		case column == 0:
		case column+1+len(word) > 120:
			out.WriteByte('\n')
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}
