// Package archive stores objects outside of their node: in a shared directory or in an S3-compatible bucket.
//
// Contract: Open returns the Store of a URL:
//
//	file:///shared/dir
//	s3://bucket/prefix?endpoint=https://host:port&region=eu-1&path_style=true
//
// Guarantees: an object is visible completely or not at all, also if its writer is killed or its machine dies during the
// write; when Put has returned nil, the object is durable. Putting an object again replaces it, and a concurrent reader
// sees the old one or the new one. Get returns ErrNotFound for a missing object, and for no other failure.
//
// Not guaranteed: that List sees an object that is put during the listing, and order between writers of one key. The
// package does not retry failed calls: callers decide how long to retry.
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

// ErrNotFound means that the object does not exist.
var ErrNotFound = errors.New("no such object in the archive")

// Store keeps objects. Its methods are safe for concurrent use.
type Store interface {
	// Put stores size bytes of body under a key.
	Put(ctx context.Context, key string, body io.Reader, size int64) error
	// Get reads an object from an offset on. The caller closes it.
	Get(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
	// List returns the objects whose keys have the prefix, in the order of their keys.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Delete removes an object; a missing object is not an error.
	Delete(ctx context.Context, key string) error
}

// Sweep removes temporary files that killed writers left below a folder of keys. No writer may use the folder
// meanwhile. A bucket keeps nothing of an incomplete write.
func Sweep(store Store, folder string) error {
	if s, ok := store.(interface{ Sweep(folder string) error }); ok {
		return s.Sweep(folder)
	}
	return nil
}

// Object is an entry of a listing.
type Object struct {
	Key      string
	Size     int64
	Modified time.Time
}

// Access holds the credentials of a bucket. The zero value means the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN.
type Access struct {
	KeyID  string
	Secret string
	// CAFile is the certificate authority (PEM) of the endpoint; empty: the authorities that the machine trusts.
	CAFile string
}

// Open returns the store of a URL. It does not connect, because an unreachable store may become reachable later.
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

// Check returns an error if the URL of a store is invalid.
func Check(address string) error {
	_, err := parse(address)
	return err
}

func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%q is not a URL of an archive: %w", address, err)
	}
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("the URL of the archive at %s contains credentials: put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", u.Host)
	case u.Scheme == "file" && u.Host == "" && filepath.IsAbs(u.Path) && u.RawQuery == "":
		return u, nil
	case u.Scheme == "s3" && u.Host != "":
		if _, err := bucketOf(u); err != nil {
			return nil, err
		}
		return u, nil
	}
	return nil, fmt.Errorf("%q is not a URL of an archive: give file:///DIR or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT", address)
}

// checkKey refuses keys that some store would treat as another key, or as a path outside of it.
func checkKey(key string) error {
	if key == "" || len(key) > 900 {
		return fmt.Errorf("bad key %.60q of an archive", key)
	}
	for part := range strings.SplitSeq(key, "/") {
		if array, _, ok := cutElement(part); ok {
			part = array
		}
		if part == "" || part[0] == '.' || strings.ContainsFunc(part, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
		}) {
			return fmt.Errorf("bad key %.60q of an archive", key)
		}
	}
	return nil
}

// cutElement cuts the number off the id of an element of a job array, such as "job_1[7]".
func cutElement(part string) (array, number string, ok bool) {
	array, rest, _ := strings.Cut(part, "[")
	number, ok = strings.CutSuffix(rest, "]")
	return array, number, ok && number != "" && !strings.ContainsFunc(number, func(r rune) bool { return r < '0' || r > '9' })
}

// Local returns the URL of a directory. It returns a URL unchanged.
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
