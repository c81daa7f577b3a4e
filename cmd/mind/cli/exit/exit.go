package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
)

// The exit codes.
const (
	// Failed: the command was refused or failed.
	Failed     = 1
	codeMisuse = 2
	// NoResult is EX_TEMPFAIL: the job was canceled or lost, so it has no exit code to pass on.
	NoResult = 75
	// codeInterrupted is the exit code that shells report for a program that SIGINT ended.
	codeInterrupted = 130
)

// codeError ends the program with its own exit code; without err it prints nothing.
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

// With makes err end the program with its own exit code. A nil err is not printed.
func With(code int, err error) error { return &codeError{code: code, err: err} }

// Misuse marks an error in the command line itself.
func Misuse(err error) error { return &codeError{code: codeMisuse, err: err} }

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
		coded = &codeError{code: codeMisuse, err: err}
	}
	if err.Error() == context.Canceled.Error() {
		err = &stopped{"interrupted"}
	}
	fmt.Fprintln(w, "mind: "+OneLine(err))
	var interrupted *stopped
	switch {
	case coded != nil:
		return coded.code
	case errors.As(err, &interrupted):
		return codeInterrupted
	}
	return Failed
}

// isMisuse recognizes the errors of cobra, which have no type.
func isMisuse(err error) bool {
	for _, start := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "required flag", "invalid argument"} {
		if strings.HasPrefix(err.Error(), start) {
			return true
		}
	}
	return false
}

// OneLine joins the lines of an error, except for lines quoted from a log.
func OneLine(err error) string {
	text := strings.TrimSpace(err.Error())
	if strings.Contains(text, "the end of its log:\n") {
		return text
	}
	return render.Printable(strings.ReplaceAll(text, "\n", "; "))
}

// stopped ends a command that the user interrupted.
type stopped struct{ text string }

// Interrupted returns the error of a command that the user interrupted; text says how far it got.
func Interrupted(text string) error { return &stopped{text} }

func (s *stopped) Error() string { return s.text }

func (s *stopped) Unwrap() error { return context.Canceled }
