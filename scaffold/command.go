package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// options are given by the author.
type options struct{ Name, Noun, Domain, Route, Permission string }

// command has the fields that the templates use.
type command struct {
	noun
	// Name is PauseQueue, Lower pauseQueue, Snake pause_queue, Verb pause and Action queue.pause.
	Name, Lower, Snake, Verb, Action string
	// Number is that of the command and ActionNumber that of its action in the audit log; Level is where its gate opens.
	Number, ActionNumber, Level int
	// Method is POST, Route the whole path below the prefix, and Second its other path, if the noun has one.
	Method, Route, Second string
	// Grants is the permission with its prefix, Permitted as docs/use/rest.md writes it, and May as the conformance suite does.
	Grants, Permitted, May string
}

// mayOf are the permissions of writes, with their names in the conformance suite.
var mayOf = map[string]string{"manage": "manage", "evaluate": "evaluate", "cluster_admin": "admin", "mind:operator": "operator"}

var commandName = regexp.MustCompile(`^([A-Z][a-z]+)((?:[A-Z][a-z]+)+)$`)

// newCommand completes what the author says with what the tree has.
func newCommand(root string, o options) (*command, error) {
	if o.Name == "" {
		return nil, fmt.Errorf("the command needs a name, a verb and a noun: make command NAME=PauseQueue")
	}
	m := commandName.FindStringSubmatch(o.Name)
	if m == nil {
		return nil, fmt.Errorf("%q is no name of a command: it is a verb and a noun in capitals, such as PauseQueue", o.Name)
	}
	if o.Noun == "" {
		o.Noun = strings.ToLower(m[2])
	}
	n, err := findNoun(o.Noun)
	if err != nil {
		return nil, err
	}
	if o.Domain != "" && o.Domain != n.Domain {
		return nil, fmt.Errorf("verbs of a %s are in %s, not in %s", n.name, n.Domain, o.Domain)
	}
	c := &command{noun: n, Name: o.Name, Verb: strings.ToLower(m[1]), Snake: snake(o.Name), Method: "POST"}
	c.Lower = strings.ToLower(o.Name[:1]) + o.Name[1:]
	c.Action = n.name + "." + c.Verb
	if o.Permission != "" {
		c.Permission = strings.TrimPrefix(o.Permission, "scaimind:")
	}
	var known bool
	if c.May, known = mayOf[c.Permission]; !known {
		return nil, fmt.Errorf("%q is no permission of a write: it is one of %v", c.Permission, slices.Sorted(maps.Keys(mayOf)))
	}
	c.Grants, c.Permitted = "scaimind:"+c.Permission, c.Permission
	if strings.Contains(c.Permission, ":") {
		c.Grants, c.Permitted = c.Permission, "`"+c.Permission+"`"
	}
	if err := c.setRoute(o.Route); err != nil {
		return nil, err
	}
	return c, c.readTree(root)
}

var routePattern = regexp.MustCompile(`^(POST|PUT|PATCH|DELETE) (/\S+)$`)

func (c *command) setRoute(route string) error {
	c.Route = c.Path + "/" + c.Verb
	if route != "" {
		m := routePattern.FindStringSubmatch(route)
		if m == nil {
			return fmt.Errorf("%q is no route of a write: it is POST, PUT, PATCH or DELETE and a path, such as 'POST %s/%s'", route, c.Path, c.Verb)
		}
		c.Method, c.Route = m[1], m[2]
	}
	rest, ok := strings.CutPrefix(c.Route, c.Path)
	if !ok || rest != "" && rest[0] != '/' {
		return fmt.Errorf("the path of a write to a %s begins with %s, and %s does not", c.name, c.Path, c.Route)
	}
	if c.Alias != "" {
		c.Second = c.Alias + rest
	}
	return nil
}

var (
	numberPattern   = regexp.MustCompile(`\) CommandNumber\(\) uint16 +\{ return (\d+) \}`)
	actionPattern   = regexp.MustCompile(`DefineAction\((\d+), "([a-z.]+)"`)
	releasedPattern = regexp.MustCompile(`const Released Level = (\d+)`)
)

// readTree finds the next free numbers, and refuses names that are taken.
func (c *command) readTree(root string) error {
	err := filepath.WalkDir(filepath.Join(root, "fsm"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if regexp.MustCompile(`(?m)^type ` + c.Name + ` struct`).Match(text) {
			return fmt.Errorf("there is a %s: %s", c.Name, path)
		}
		for _, m := range numberPattern.FindAllSubmatch(text, -1) {
			c.Number = max(c.Number, number(m[1])+1)
		}
		for _, m := range actionPattern.FindAllSubmatch(text, -1) {
			c.ActionNumber = max(c.ActionNumber, number(m[1])+1)
			if string(m[2]) == c.Action {
				return fmt.Errorf("the audit log has the action %s: %s", c.Action, path)
			}
		}
		if m := releasedPattern.FindSubmatch(text); m != nil {
			c.Level = number(m[1]) + 1
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.Number == 0 || c.ActionNumber == 0 || c.Level == 0 {
		return fmt.Errorf("%s is no repository of Mind: it has no numbers of commands, actions or levels below fsm", root)
	}
	return nil
}

func number(digits []byte) int {
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		panic(err) // the patterns let digits through only
	}
	return n
}

// snake turns PauseQueue into pause_queue.
func snake(name string) string {
	var out strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

// The functions below are for the templates.

// StateImports are the packages that the verb needs.
func (c *command) StateImports() []string {
	return imports(append(c.Imports, "fsm/access", "fsm/kernel", "fsm/level", "fsm/reason", "fsm/work/lifecycle"), c.usedIn(c.Lookup+c.Save))
}

// StateTestImports are the packages that the test of the verb needs.
func (c *command) StateTestImports() []string {
	return imports(append(c.TestImports, "fsm/reason", "fsm/"+c.Dir), nil)
}

// ServiceImports are the packages that the method of the service needs.
func (c *command) ServiceImports() []string {
	return imports(append(c.ServerImports, "coordinator/call", "coordinator/replica", "fsm/"+c.Dir), nil)
}

// VerbImports are the packages that the verb of the command line needs.
func (c *command) VerbImports() []string {
	return imports(append(c.CLIImports, "cmd/mind/cli/render", "cmd/mind/cli/rest"), nil)
}

// usedIn lets an import through unless the code has no use for it.
func (c *command) usedIn(code string) func(path string) bool {
	return func(path string) bool { return path != "fsm/reason" || strings.Contains(code, "reason.") }
}

func imports(paths []string, used func(string) bool) []string {
	paths = slices.Clone(paths)
	if used != nil {
		paths = slices.DeleteFunc(paths, func(p string) bool { return !used(p) })
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// ActorKey is the CBOR key after those of the object.
func (c *command) ActorKey() int { return strings.Count(c.Key, "cbor:") + 1 }

// Body says that the route takes a body.
func (c *command) Body() bool { return c.Method != "DELETE" }

// MethodName is the method as net/http calls it: Post.
func (c *command) MethodName() string { return c.Method[:1] + strings.ToLower(c.Method[1:]) }

// LowerMethod is the method as the proto calls it: post.
func (c *command) LowerMethod() string { return strings.ToLower(c.Method) }

// Called is the path of the sample.
func (c *command) Called() string { return segment.ReplaceAllString(c.Route, c.Sample) }

// CalledWith is a Go expression for the path of the argument.
func (c *command) CalledWith() string {
	before, after, _ := strings.Cut(c.Route, "{")
	_, after, _ = strings.Cut(after, "}")
	path := strconv.Quote(before) + "+url.PathEscape(args[0])"
	if after != "" {
		path += "+" + strconv.Quote(after)
	}
	return path
}

// Typed are the arguments of the program, as Go strings.
func (c *command) Typed() string {
	var quoted []string
	for _, word := range strings.Fields(c.Words + c.Verb + " " + c.Sample) {
		quoted = append(quoted, strconv.Quote(word))
	}
	return strings.Join(quoted, ", ")
}

// CommandLine is the verb as users type it.
func (c *command) CommandLine() string { return "mind " + c.Words + c.Verb }

var segment = regexp.MustCompile(`\{[a-z]+\}`)
