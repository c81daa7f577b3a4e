// Package archive keeps objects away from the node that made them: in a
// shared directory or in an S3-compatible bucket.
//
// Contract: Open returns the Store that a URL names:
//
//	file:///shared/dir
//	s3://bucket/prefix?endpoint=https://host:port&region=eu-1&path_style=true
//
// Guarantees: an object appears whole or not at all, also when its writer is
// killed or its machine dies in the middle; when Put has returned nil, the
// object is there to stay. Putting an object again replaces it, and who reads
// it meanwhile sees the old one or the new one. Get of what is not there
// returns ErrNotFound, and no other failure does.
//
// Not guaranteed: that List sees an object that is put while it lists, and
// order between writers of one key. Nothing is retried here for longer than a
// call takes: callers know how long it is worth their while.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// ErrNotFound says that there is no such object.
var ErrNotFound = errors.New("no such object in the archive")

// Store keeps objects. Its methods may be called at the same time.
type Store interface {
	// Put keeps size bytes of body under a key.
	Put(ctx context.Context, key string, body io.Reader, size int64) error
	// Get reads an object from an offset on. The caller closes it.
	Get(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
	// List returns the objects whose keys begin with the prefix, in the order
	// of their keys.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Delete removes an object; that it is not there is no error.
	Delete(ctx context.Context, key string) error
}

// Object is an entry of a listing.
type Object struct {
	Key      string
	Size     int64
	Modified time.Time
}

// Access is what a bucket asks for. The zero value means the variables
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
type Access struct {
	KeyID  string
	Secret string
	// CAFile is the authority (PEM) of an endpoint with a private one; empty:
	// those that the machine trusts.
	CAFile string
}

// Open returns the store that a URL names. It does not touch the store: one
// that cannot be reached now may be later.
func Open(address string, access Access) (Store, error) {
	u, err := parse(address)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		return &directory{root: filepath.Clean(u.Path)}, nil
	}
	return openBucket(u, access)
}

// Check says what is wrong with the URL of a store.
func Check(address string) error {
	_, err := parse(address)
	return err
}

func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%q is no URL of an archive: %w", address, err)
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("the URL of the archive at %s carries credentials: they go into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", u.Host)
	case u.Scheme == "file" && u.Host == "" && filepath.IsAbs(u.Path) && u.RawQuery == "":
		return u, nil
	case u.Scheme == "s3" && u.Host != "":
		if _, err := bucketOf(u); err != nil {
			return nil, err
		}
		return u, nil
	}
	return nil, fmt.Errorf("%q is no URL of an archive: give file:///DIR or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT", address)
}

// checkKey refuses keys that some store would read as another one, or as a
// place outside of it.
func checkKey(key string) error {
	if key == "" || len(key) > 900 {
		return fmt.Errorf("bad key %.60q of an archive", key)
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part[0] == '.' || strings.ContainsFunc(part, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
		}) {
			return fmt.Errorf("bad key %.60q of an archive", key)
		}
	}
	return nil
}

// Local returns the URL of a directory, and URLs as they are.
func Local(address string) (string, error) {
	if address == "" || strings.Contains(address, "://") {
		return address, nil
	}
	dir, err := filepath.Abs(address)
	if err != nil {
		return "", fmt.Errorf("directory of the archive: %w", err)
	}
	return (&url.URL{Scheme: "file", Path: dir}).String(), nil
}
