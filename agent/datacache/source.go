package datacache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mindcoordinator/mind/agent/datacache/modelfiles"
)

// source is what a path was found to stand for.
type source struct {
	// local is set for what is on the node already.
	local *Data
	files []remoteFile
	// version changes with any of the files; empty: that cannot be told.
	version string
	// repository: it may hold one thing in many formats.
	repository bool
	// part is which files of it are meant; empty: all.
	part string
}

// size of all files, -1 when one is not known.
func (s *source) size() (total int64) {
	for i := range s.files {
		if s.files[i].size < 0 {
			return -1
		}
		total += s.files[i].size
	}
	return total
}

// maxFiles bounds the files of one source.
const maxFiles = 100_000

// errChanged says that a source is not what it was when it was resolved.
var errChanged = errors.New("it changed while it was fetched")

// fault is something that trying again does not mend: a sentence for people.
type fault struct {
	why string
	// missing: it is not there, or not for whoever asks.
	missing bool
}

func (f fault) Error() string { return f.why }

func faultf(format string, args ...any) error { return fault{why: fmt.Sprintf(format, args...)} }

func missingf(format string, args ...any) error {
	return fault{why: fmt.Sprintf(format, args...), missing: true}
}

// Missing says whether an error of Fetch means that there is no such thing, or that it is not shown to whoever asks: other
// than what could not be reached, broke off, or found no room.
func Missing(err error) bool {
	var f fault
	return errors.As(err, &f) && f.missing
}

// explain makes the one sentence that users see.
func explain(what, path string, err error) error {
	return fmt.Errorf("%s %s: %w", cmp.Or(what, "data source"), Redacted(path), err)
}

// bare is an error of the HTTP client without the URL that it repeats, which may hold a secret.
func bare(err error) error {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	return err
}

// Redacted is a path without what may be secret of it: the query of a URL holds signatures.
func Redacted(path string) string {
	before, _, found := strings.Cut(path, "?")
	if !found || !strings.Contains(before, "://") {
		return path
	}
	return before + "?..."
}

// Schemes that sources may have. Without one a path is that of a file or directory on the node.
const (
	SchemeFile  = "file"
	SchemeHTTP  = "http"
	SchemeHTTPS = "https"
	SchemeS3    = "s3"
	SchemeHub   = "hf"
	SchemeDrive = "scaidrive"
	SchemeAtlas = "scaiatlas"
)

// resolve asks what a path stands for, now, for a tenant.
func (c *Cache) resolve(ctx context.Context, tenant, path string, credentials Credentials) (*source, error) {
	scheme, _, found := strings.Cut(path, "://")
	if !found {
		return c.local(ctx, tenant, path)
	}
	u, err := url.Parse(path)
	if err != nil {
		return nil, faultf("it is not a URL")
	}
	if u.User != nil {
		return nil, faultf("it carries a name or password: keep them out of paths, which others can read")
	}
	var s *source
	switch scheme {
	case SchemeFile:
		if u.Host != "" && u.Host != "localhost" {
			return nil, faultf("it names the host %q: write file:///PATH, on every node that the job may run on", u.Host)
		}
		if u.RawQuery != "" || u.Fragment != "" {
			return nil, faultf("a file has no query")
		}
		return c.local(ctx, tenant, u.Path)
	case SchemeHTTP, SchemeHTTPS:
		s, err = c.web(ctx, u)
	case SchemeS3:
		s, err = c.bucket(ctx, u, credentials)
	case SchemeHub:
		s, err = c.hub(ctx, strings.TrimPrefix(path, SchemeHub+"://"), credentials)
	case SchemeDrive:
		s, err = c.scai(ctx, u, scaiService{"ScaiDrive", "scaidrive_url", c.cfg.Drive, credentials.ScaiDrive})
	case SchemeAtlas:
		s, err = c.scai(ctx, u, scaiService{"ScaiAtlas", "scaiatlas_url", c.cfg.Atlas, credentials.ScaiAtlas})
	default:
		return nil, faultf("%s:// is not known: give file, http, https, s3, hf, scaidrive or scaiatlas, or the path of a file on the node", scheme)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case len(s.files) == 0:
		return nil, missingf("there is no file in it: check the path")
	case len(s.files) > maxFiles:
		return nil, faultf("it has %d files; at most %d are fetched: name a part of it, or pack them", len(s.files), maxFiles)
	}
	return s, checkNames(s.files)
}

// asModel leaves out what a model's safetensors make superfluous. What is left is a source of its own, if anything was.
func (s *source) asModel() *source {
	if !s.repository {
		return s
	}
	names := make([]string, len(s.files))
	for i, f := range s.files {
		names[i] = f.name
	}
	left := modelfiles.Kept(names)
	if len(left) == len(names) {
		return s
	}
	kept := make([]remoteFile, 0, len(left))
	for _, f := range s.files {
		if len(left) > 0 && f.name == left[0] { // they are in the same order
			kept, left = append(kept, f), left[1:]
		}
	}
	return &source{files: kept, version: s.version, repository: true, part: "safetensors"}
}
