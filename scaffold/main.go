// Package main begins a new command of the replicated state: `make command NAME=PauseQueue` writes its verb with a test, the call
// with its REST route, the method that serves it, the verb of the command line with a test, an endpoint of the conformance suite
// and the rows of the docs.
//
// The files compile as they are written. Marks stand for sentences and decisions that only a person can supply; until these are
// filled in, the new tests fail, and so does the test of this package, which lists the marks.
//
// Guarantees: nothing is written when something is refused. Numbers are the next free ones.
//
// Not guaranteed: that the command is a good one, or that files which its author moved are found.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	var o options
	flag.StringVar(&o.Name, "name", "", "name of the command: a verb and a noun, such as PauseQueue")
	flag.StringVar(&o.Noun, "noun", "", "what it is done to: "+strings.Join(nounNames(), ", ")+"; default: the end of the name")
	flag.StringVar(&o.Domain, "domain", "", "package of verbs, such as queueverbs; default: that of the noun")
	flag.StringVar(&o.Route, "route", "", "REST route, such as 'POST /queues/{name}/pause'; default: POST, the path of the noun and the verb")
	flag.StringVar(&o.Permission, "permission", "", "permission of the route without its prefix, such as manage; default: that of writes to the noun")
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if err := run(*root, o); err != nil {
		fmt.Fprintln(os.Stderr, "scaffold:", err)
		os.Exit(1)
	}
}

func run(root string, o options) error {
	c, err := newCommand(root, o)
	if err != nil {
		return err
	}
	files, err := c.files(root)
	if err != nil {
		return err
	}
	if err := write(root, files); err != nil {
		return err
	}
	for _, f := range files {
		fmt.Println(f.path)
	}
	fmt.Println("Each has `" + mark + "` where a person has to go on; `go test ./scaffold` lists what is left.")
	return nil
}
