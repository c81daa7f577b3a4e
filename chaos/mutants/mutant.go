package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// mutant is one mistake.
type mutant struct {
	Name string
	// What, a text, describes the change.
	What string
	// Breaks is the promise that it breaks: an invariant of docs/architecture.md, a rule (or L1) of
	// docs/operate/failure-model.md, or the page of docs that makes the promise.
	Breaks string
	// In File, Old, which must occur exactly once, becomes New.
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

// page returns the list in docs/develop/mutants.md.
func page(root string, of []mutant) string {
	var b strings.Builder
	for _, m := range of {
		breaks := m.Breaks
		if page, ok := strings.CutSuffix(breaks, ".md"); ok {
			breaks = fmt.Sprintf("[%s](%s)", page, pageLink(root, m.Breaks))
		}
		words := append([]string{"-", "`" + m.Name + "`", "(" + breaks + "):"}, strings.Fields(m.What+". Caught by")...)
		for i, test := range m.Tests {
			name := fmt.Sprintf("`%s %s`", strings.TrimPrefix(m.Package, "./"), test)
			if i < len(m.Tests)-1 {
				name += ","
			}
			words = append(words, name)
		}
		wrap(&b, words)
	}
	return b.String()
}

// wrap writes an item of a list in lines of at most 120 columns.
func wrap(b *strings.Builder, words []string) {
	column := 0
	for i, word := range words {
		switch width := utf8.RuneCountInString(word); {
		case i == 0:
			b.WriteString(word)
			column = width
		case column+1+width > 120:
			b.WriteString("\n  " + word)
			column = 2 + width
		default:
			b.WriteString(" " + word)
			column += 1 + width
		}
	}
	b.WriteString("\n")
}

// pageLink returns a link to a page from another folder of docs. It is empty if there is no such page.
func pageLink(root, page string) string {
	found, _ := filepath.Glob(filepath.Join(root, "docs", "*", page))
	if len(found) != 1 {
		return ""
	}
	return "../" + filepath.Base(filepath.Dir(found[0])) + "/" + page
}
