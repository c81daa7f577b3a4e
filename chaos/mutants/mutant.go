package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one mistake.
type mutant struct {
	Name string
	// What is changed, in words.
	What string
	// Breaks is the promise that it breaks: an invariant of docs/architecture.md, a rule (or L1) of docs/operate/failure-model.md, or else
	// the page of docs that makes it.
	Breaks string
	// File is changed: Old, which is there exactly once, becomes New.
	File, Old, New string
	// Package and Tests are the cheapest tests that must notice.
	Package string
	Tests   []string
}

// change returns the changed file.
func (m *mutant) change(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	switch n := bytes.Count(text, []byte(m.Old)); {
	case m.Old == "" || m.Old == m.New:
		return nil, fmt.Errorf("mutant %s changes nothing", m.Name)
	case n != 1:
		return nil, fmt.Errorf("mutant %s is stale: what it changes is in %s %d times", m.Name, m.File, n)
	}
	return bytes.Replace(text, []byte(m.Old), []byte(m.New), 1), nil
}

// table is the one in docs/operate/failure-model.md.
func table(root string, of []mutant) string {
	var b strings.Builder
	b.WriteString("| what is changed | mutant | breaks | caught by |\n|---|---|---|---|\n")
	for _, m := range of {
		breaks := m.Breaks
		if page, ok := strings.CutSuffix(breaks, ".md"); ok {
			breaks = fmt.Sprintf("[%s](%s)", page, pageLink(root, m.Breaks))
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | `%s` %s |\n", m.What, m.Name, breaks, m.Package, strings.Join(m.Tests, ", "))
	}
	return b.String()
}

// pageLink leads to a page from another folder of docs; it is empty when there is no such page.
func pageLink(root, page string) string {
	found, _ := filepath.Glob(filepath.Join(root, "docs", "*", page))
	if len(found) != 1 {
		return ""
	}
	return "../" + filepath.Base(filepath.Dir(found[0])) + "/" + page
}
