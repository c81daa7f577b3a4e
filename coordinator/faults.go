package coordinator

import (
	"errors"
	"fmt"
	"strings"
)

// invalid is a request that cannot be taken: the field, and a sentence that helps.
type invalid struct{ field, message string }

func (e *invalid) Error() string { return e.field + ": " + e.message }

func bad(field, format string, args ...any) error {
	return &invalid{field, fmt.Sprintf(format, args...)}
}

// How many faults of one request are told, and how much of each but the first.
const (
	maxFaults     = 16
	maxFaultBytes = 1024
)

// faults are what is wrong with a request, in the order of looking. What depends on something that is wrong already is not
// looked at: one mistake is one fault.
type faults struct {
	found []*invalid
	more  int
	// other is what went wrong that is no fault of the request.
	other error
}

func (f *faults) bad(field, format string, args ...any) {
	if len(f.found) >= maxFaults {
		f.more++
		return
	}
	f.found = append(f.found, &invalid{field, fmt.Sprintf(format, args...)})
}

// add takes what a check returned: nothing, one fault, or several.
func (f *faults) add(err error) {
	var (
		many *manyInvalid
		one  *invalid
	)
	switch {
	case err == nil:
	case errors.As(err, &many):
		for _, e := range many.found {
			f.bad(e.field, "%s", e.message)
		}
		f.more += many.more
	case errors.As(err, &one):
		f.bad(one.field, "%s", one.message)
	case f.other == nil:
		f.other = err
	}
}

// count says how many there are, so that a check knows whether it added any.
func (f *faults) count() int { return len(f.found) + f.more }

// below says whether a field, or what it holds, is at fault.
func (f *faults) below(field string) bool {
	for _, e := range f.found {
		if e.field == field || strings.HasPrefix(e.field, field+".") {
			return true
		}
	}
	return f.more > 0
}

// err is nil when there are none.
func (f *faults) err() error {
	switch {
	case f.other != nil:
		return f.other
	case len(f.found) == 0:
		return nil
	case len(f.found) == 1:
		return f.found[0]
	}
	return &manyInvalid{f.found, f.more}
}

// manyInvalid are several faults of one request, at most maxFaults of them.
type manyInvalid struct {
	found []*invalid
	more  int
}

// Error has one line for each fault.
func (e *manyInvalid) Error() string {
	var b strings.Builder
	for i, one := range e.found {
		text := strings.ReplaceAll(one.Error(), "\n", " ")
		if i > 0 {
			b.WriteByte('\n')
			text = clip(text, maxFaultBytes)
		}
		b.WriteString(text)
	}
	if e.more > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.more)
	}
	return b.String()
}

// Unwrap is the first fault.
func (e *manyInvalid) Unwrap() error { return e.found[0] }
