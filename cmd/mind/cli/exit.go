package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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

// stopped ends a command that the user interrupted.
type stopped struct{ text string }

func (s *stopped) Error() string { return s.text }

func (s *stopped) Unwrap() error { return context.Canceled }
