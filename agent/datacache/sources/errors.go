package sources

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/mindcoordinator/mind/reach"
)

// ErrChanged means that a source has changed since it was resolved.
var ErrChanged = errors.New("it changed while it was fetched")

// fault is an error that another try does not fix: a sentence for the user.
type fault struct {
	why string
	// missing: the source does not exist, or the caller may not see it.
	missing bool
}

func (f fault) Error() string { return f.why }

// Faultf returns an error that another try does not fix.
func Faultf(format string, args ...any) error { return fault{why: fmt.Sprintf(format, args...)} }

func missingf(format string, args ...any) error {
	return fault{why: fmt.Sprintf(format, args...), missing: true}
}

// bare returns an error of the HTTP client without the URL, which may contain a secret.
func bare(err error) error {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	return err
}

// Redacted returns a path without possible secrets: the query of a URL may hold signatures.
func Redacted(path string) string {
	before, _, found := strings.Cut(path, "?")
	if !found || !strings.Contains(before, "://") {
		return path
	}
	return before + "?..."
}

// Missing reports whether an error of Fetch means that the source does not exist, or that the caller may not see it.
// Unreachable services, broken connections and lack of space are not missing sources.
func Missing(err error) bool {
	var f fault
	return errors.As(err, &f) && f.missing
}

// Refused returns an error which means that a source is not available, and that another try does not help.
func Refused(format string, args ...any) error { return missingf(format, args...) }

// Broken reports whether an error means that the source could not be reached, or that the connection broke: another try may
// succeed. A source repeats its refusals.
func Broken(err error) bool {
	var f fault
	var path *os.PathError
	return !errors.As(err, &f) && !errors.As(err, new(reach.Refusal)) && !errors.As(err, &path) && !errors.Is(err, ErrChanged)
}
