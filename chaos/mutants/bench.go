package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// outcome is the result of trying a mutant.
type outcome string

const (
	caught   outcome = "caught"
	survived outcome = "SURVIVED"
	stale    outcome = "STALE"   // the text to change is not in the file exactly once
	broken   outcome = "BROKEN"  // it does not compile
	unsound  outcome = "UNSOUND" // its tests fail without it, or do not exist
	late     outcome = "LATE"    // its tests did not end in time
	halted   outcome = "HALTED"  // the run was interrupted
)

type result struct {
	outcome outcome
	// why is the name of the test that failed, or the error.
	why    string
	output string
}

// bench tries mutants.
type bench struct {
	root, scratch string
	limit         time.Duration
}

// control has the results of a package without a mutant: a test that fails there says nothing about a mutant.
type control struct {
	pkg   string
	tests []string
	once  sync.Once
	// outcomes are the results of the tests, by name: "PASS", "FAIL", "SKIP"; a test without one does not exist.
	outcomes map[string]string
	err      error
}

// try builds the package with the mutant in it, and runs its tests.
func (b *bench) try(ctx context.Context, m *mutant, c *control) result {
	text, err := m.change(b.root)
	if err != nil {
		return result{outcome: stale, why: err.Error()}
	}
	c.once.Do(func() { b.control(ctx, c) })
	switch {
	case ctx.Err() != nil:
		return result{outcome: halted}
	case c.err != nil:
		return result{outcome: unsound, why: c.err.Error()}
	}
	for _, t := range m.Tests {
		if v := c.outcomes[t]; v != "PASS" {
			return result{outcome: unsound, why: fmt.Sprintf("without the mutant, %s ends with %q", t, v)}
		}
	}
	overlay, err := b.overlay(m, text)
	if err != nil {
		return result{outcome: broken, why: err.Error()}
	}
	binary := filepath.Join(b.scratch, m.Name+".test")
	defer func() { _ = os.Remove(binary) }()
	if output, err := b.build(ctx, m.Package, binary, "-overlay", overlay); err != nil {
		if ctx.Err() != nil {
			return result{outcome: halted}
		}
		return result{outcome: broken, why: "it does not compile: " + firstFault(output), output: output}
	}
	output, err := b.run(ctx, m.Package, binary, m.Tests, "-test.failfast")
	return judge(ctx, output, err)
}

// firstFault returns the first error of the compiler, whose headings begin with a #.
func firstFault(output string) string {
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "#") {
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(output)
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// judge derives the result from the output of the tests.
func judge(ctx context.Context, output string, err error) result {
	r := result{output: output}
	names := failed.FindAllStringSubmatch(output, -1)
	switch {
	case ctx.Err() != nil:
		r.outcome = halted
	case err == nil:
		r.outcome = survived
	case strings.Contains(output, "panic: test timed out"):
		r.outcome, r.why = late, "the tests did not end"
	case len(names) > 0:
		// Of nested tests, the innermost is the most informative.
		r.outcome, r.why = caught, names[len(names)-1][1]
	case strings.Contains(output, "panic: ") || strings.Contains(output, "fatal error: "):
		r.outcome, r.why = caught, "panic"
	default:
		r.outcome, r.why = late, "the tests ended without a result: "+err.Error()
	}
	return r
}

// control runs the tests of the unchanged package.
func (b *bench) control(ctx context.Context, c *control) {
	binary := filepath.Join(b.scratch, strings.ReplaceAll(c.pkg, "/", "_")+".control")
	defer func() { _ = os.Remove(binary) }()
	if output, err := b.build(ctx, c.pkg, binary); err != nil {
		c.err = fmt.Errorf("%s does not compile as it is: %s", c.pkg, output)
		return
	}
	output, _ := b.run(ctx, c.pkg, binary, c.tests)
	c.outcomes = outcomes(output)
}

var testLine = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+)`)

func outcomes(output string) map[string]string {
	all := map[string]string{}
	for _, v := range testLine.FindAllStringSubmatch(output, -1) {
		all[v[2]] = v[1]
	}
	return all
}

// overlay writes the changed file, and the overlay file that makes the compiler use it in place of the original.
func (b *bench) overlay(m *mutant, text []byte) (string, error) {
	file := filepath.Join(b.scratch, m.Name+".go")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(b.root, m.File): file}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(b.scratch, m.Name+".json")
	return overlay, os.WriteFile(overlay, replace, 0o600)
}

func (b *bench) build(ctx context.Context, pkg, to string, flags ...string) (string, error) {
	args := slices.Concat([]string{"test", "-c", "-vet=off", "-o", to}, flags, []string{"./" + pkg})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.root
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// run runs tests of a package, in the directory that go test would use. If they fail they may leave processes behind,
// which their keeper ends.
func (b *bench) run(ctx context.Context, pkg, binary string, tests []string, flags ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit+time.Minute)
	defer cancel()
	return kept(ctx, filepath.Join(b.root, pkg), binary, append(flags, "-test.v", "-test.short",
		"-test.timeout", b.limit.String(), "-test.run", "^("+strings.Join(tests, "|")+")$")...)
}
