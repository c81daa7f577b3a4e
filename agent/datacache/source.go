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

// source is the resolved form of a path.
type source struct {
	// local is set for a source that is on the node already.
	local *Data
	files []remoteFile
	// version changes with any of the files; empty: unknown.
	version string
	// repository: the source may hold the same weights in several formats.
	repository bool
	// part selects some of its files; empty: all.
	part string
	// archived: it is in the archive of checkpoints. A copy that is damaged there is missing.
	archived bool
}

// size returns the size of all files; -1 if the size of one is unknown.
func (s *source) size() (total int64) {
	for i := range s.files {
		if s.files[i].size < 0 {
			return -1
		}
		total += s.files[i].size
	}
	return total
}

// maxFiles limits the files of one source.
const maxFiles = 100_000

// errChanged means that a source has changed since it was resolved.
var errChanged = errors.New("it changed while it was fetched")

// fault is an error that another try does not fix: a sentence for the user.
type fault struct {
	why string
	// missing: the source does not exist, or the caller may not see it.
	missing bool
}

func (f fault) Error() string { return f.why }

func faultf(format string, args ...any) error { return fault{why: fmt.Sprintf(format, args...)} }

func missingf(format string, args ...any) error {
	return fault{why: fmt.Sprintf(format, args...), missing: true}
}

// Missing reports whether an error of Fetch means that the source does not exist, or that the caller may not see it.
// Unreachable services, broken connections and lack of space are not missing sources.
func Missing(err error) bool {
	var f fault
	return errors.As(err, &f) && f.missing
}

// explain makes the sentence that users see.
func explain(what, path string, err error) error {
	if transient(err) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s %s: %w; see why the service fails, then retry the job", cmp.Or(what, "data source"), Redacted(path), err)
	}
	return fmt.Errorf("%s %s: %w", cmp.Or(what, "data source"), Redacted(path), err)
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

// Schemes of sources. A path without a scheme is a file or directory on the node.
const (
	SchemeFile  = "file"
	SchemeHTTP  = "http"
	SchemeHTTPS = "https"
	SchemeS3    = "s3"
	SchemeHub   = "hf"
	SchemeDrive = "scaidrive"
	SchemeAtlas = "scaiatlas"
)

// resolve finds the source that a path currently stands for, for a tenant.
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
		return nil, faultf("it contains a user name or password: keep them out of paths, which others can read")
	}
	var s *source
	switch scheme {
	case SchemeFile:
		if u.Host != "" && u.Host != "localhost" {
			return nil, faultf("it has the host %q: write file:///PATH; the file must exist on every node that the job may run on", u.Host)
		}
		if u.RawQuery != "" || u.Fragment != "" {
			return nil, faultf("a file:// URL must not have a query")
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
		return nil, faultf("%s:// is not supported: use file, http, https, s3, hf, scaidrive or scaiatlas, or the path of a file on the node", scheme)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case len(s.files) == 0:
		return nil, missingf("it contains no file: check the path")
	case len(s.files) > maxFiles:
		return nil, faultf("it has %d files, and at most %d are allowed: choose a part of it, or pack the files into archives", len(s.files), maxFiles)
	}
	return s, checkNames(s.files)
}

// asModel drops the files whose weights are also present as safetensors. If it drops any, the result is a source of its
// own.
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
