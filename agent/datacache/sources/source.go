// Package sources finds what a path currently stands for, as the data of a job: which files there are, in which version, and how each
// is read. There is a file for each kind of source: local files, the web, object stores, the Hugging Face hub, ScaiDrive and
// ScaiAtlas, and what the archive and other nodes have.
//
// Contract: Resolve asks the source, with the given credentials, and transfers nothing. An error is a sentence for the user; Broken
// tells whether another try may help, and Missing whether the source does not exist for the caller.
//
// Guarantees: names of files stay below the directory that they are written to. A local source lies in a directory that the operator
// listed, or in one of the tenant's own. No other host is asked than package reach allows, and no source lies in an archive of the
// node. Messages have no secrets of URLs.
//
// Not guaranteed: that a source stays as it is; reading one that has changed fails with ErrChanged where the source can tell.
package sources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/url"
	"strings"

	"github.com/mindcoordinator/mind/agent/datacache/modelfiles"
)

// Source is the resolved form of a path.
type Source struct {
	// Local is set for a source that is on the node already.
	Local *Local
	Files []File
	// Version changes with any of the files; empty: unknown.
	Version string
	// Part names the files that AsModel has chosen; empty: all.
	Part string
	// Archived: it is in the archive of checkpoints. A copy that is damaged there is missing.
	Archived bool
	// repository: the source may hold the same weights in several formats.
	repository bool
}

// Local is a source on the node.
type Local struct {
	// Dir holds the files; a source that is a single file is that file.
	Dir string
	// Files are paths relative to Dir; none for a large directory.
	Files []string
	// Count is the number of files, and Size their bytes; -1: too many to count.
	Count int
	Size  int64
}

// File is one file of a source.
type File struct {
	// Name is relative, with slashes.
	Name string
	Size int64 // -1: not known
	// SHA256 is the digest given by the source; empty: none.
	SHA256 string
	// Strong: Open resumes at an offset of the same content.
	Strong bool
	// Open reads the file from an offset, or from its start if that is not possible: from says which.
	Open func(ctx context.Context, offset int64) (body io.ReadCloser, from int64, err error)
}

// Size returns the size of all files; -1 if the size of one is unknown.
func (s *Source) Size() (total int64) {
	for i := range s.Files {
		if s.Files[i].Size < 0 {
			return -1
		}
		total += s.Files[i].Size
	}
	return total
}

// maxFiles limits the files of one source.
const maxFiles = 100_000

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

// Resolve finds the source that a path currently stands for, for a tenant.
func (r *Resolver) Resolve(ctx context.Context, tenant, path string, credentials Credentials) (*Source, error) {
	scheme, _, found := strings.Cut(path, "://")
	if !found {
		return r.local(ctx, tenant, path)
	}
	u, err := url.Parse(path)
	if err != nil {
		return nil, Faultf("it is not a URL")
	}
	if u.User != nil {
		return nil, Faultf("it contains a user name or password: keep them out of paths, which others can read")
	}
	var s *Source
	switch scheme {
	case SchemeFile:
		if u.Host != "" && u.Host != "localhost" {
			return nil, Faultf("it has the host %q: write file:///PATH; the file must exist on every node that the job may run on", u.Host)
		}
		if u.RawQuery != "" || u.Fragment != "" {
			return nil, Faultf("a file:// URL must not have a query")
		}
		return r.local(ctx, tenant, u.Path)
	case SchemeHTTP, SchemeHTTPS:
		s, err = r.web(ctx, u)
	case SchemeS3:
		s, err = r.bucket(ctx, u, credentials)
	case SchemeHub:
		s, err = r.hub(ctx, strings.TrimPrefix(path, SchemeHub+"://"), credentials)
	case SchemeDrive:
		s, err = r.scai(ctx, u, scaiService{"ScaiDrive", "scaidrive_url", r.cfg.Drive, credentials.ScaiDrive})
	case SchemeAtlas:
		s, err = r.scai(ctx, u, scaiService{"ScaiAtlas", "scaiatlas_url", r.cfg.Atlas, credentials.ScaiAtlas})
	default:
		return nil, Faultf("%s:// is not supported: use file, http, https, s3, hf, scaidrive or scaiatlas, or the path of a file on the node", scheme)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case len(s.Files) == 0:
		return nil, missingf("it contains no file: check the path")
	case len(s.Files) > maxFiles:
		return nil, Faultf("it has %d files, and at most %d are allowed: choose a part of it, or pack the files into archives", len(s.Files), maxFiles)
	}
	return s, checkNames(s.Files)
}

// AsModel drops the files whose weights are also present as safetensors. If it drops any, the result is a source of its
// own.
func (s *Source) AsModel() *Source {
	if !s.repository {
		return s
	}
	names := make([]string, len(s.Files))
	for i, f := range s.Files {
		names[i] = f.Name
	}
	left := modelfiles.Kept(names)
	if len(left) == len(names) {
		return s
	}
	kept := make([]File, 0, len(left))
	for _, f := range s.Files {
		if len(left) > 0 && f.Name == left[0] { // they are in the same order
			kept, left = append(kept, f), left[1:]
		}
	}
	return &Source{Files: kept, Version: s.Version, repository: true, Part: "safetensors"}
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
