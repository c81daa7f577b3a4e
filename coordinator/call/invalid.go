package call

import (
	"errors"
	"fmt"
	"strings"
)

// Invalid is a fault of a request: the field, and a sentence that tells the caller what to do.
type Invalid struct{ Field, Message string }

func (e *Invalid) Error() string { return e.Field + ": " + e.Message }

func Bad(field, format string, args ...any) error {
	return &Invalid{field, fmt.Sprintf(format, args...)}
}

// The number of faults of one request that are reported, and the size of each but the first.
const (
	MaxFaults     = 16
	MaxFaultBytes = 1024
)

// Faults are the faults of a request, in the order of the checks. A check that depends on a faulty field is skipped: one
// mistake is one fault.
type Faults struct {
	found []*Invalid
	more  int
	// other is an error that the request did not cause.
	other error
}

func (f *Faults) Bad(field, format string, args ...any) {
	if len(f.found) >= MaxFaults {
		f.more++
		return
	}
	f.found = append(f.found, &Invalid{field, fmt.Sprintf(format, args...)})
}

// Plain adds a fault if a text that is shown on one line has control characters.
func Plain(f *Faults, field, text string) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		f.Bad(field, "must not contain control characters")
	}
}

// Add adds the result of a check: nothing, one fault, or several.
func (f *Faults) Add(err error) {
	var (
		many *ManyInvalid
		one  *Invalid
	)
	switch {
	case err == nil:
	case errors.As(err, &many):
		for _, e := range many.found {
			f.Bad(e.Field, "%s", e.Message)
		}
		f.more += many.more
	case errors.As(err, &one):
		f.Bad(one.Field, "%s", one.Message)
	case f.other == nil:
		f.other = err
	}
}

// Count returns the number of faults, so that a check knows whether it added any.
func (f *Faults) Count() int { return len(f.found) + f.more }

// Below reports whether a field, or something in it, is at fault.
func (f *Faults) Below(field string) bool {
	for _, e := range f.found {
		if e.Field == field || strings.HasPrefix(e.Field, field+".") {
			return true
		}
	}
	return f.more > 0
}

// Err returns all faults as one error; nil if there are none.
func (f *Faults) Err() error {
	switch {
	case f.other != nil:
		return f.other
	case len(f.found) == 0:
		return nil
	case len(f.found) == 1:
		return f.found[0]
	}
	return &ManyInvalid{f.found, f.more}
}

// ManyInvalid has several faults of one request, at most MaxFaults.
type ManyInvalid struct {
	found []*Invalid
	more  int
}

// Error has one line for each fault.
func (e *ManyInvalid) Error() string {
	var b strings.Builder
	for i, one := range e.found {
		text := strings.ReplaceAll(one.Error(), "\n", " ")
		if i > 0 {
			b.WriteByte('\n')
			text = Clip(text, MaxFaultBytes)
		}
		b.WriteString(text)
	}
	if e.more > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.more)
	}
	return b.String()
}

// Unwrap returns the first fault.
func (e *ManyInvalid) Unwrap() error { return e.found[0] }
