package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/s3server"
	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
	"github.com/mindcoordinator/mind/pki"
)

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func put(ctx context.Context, s archive.Store, key, content string) error {
	return s.Put(ctx, key, strings.NewReader(content), int64(len(content)))
}

func get(t *testing.T, s archive.Store, key string, offset int64) string {
	t.Helper()
	body, err := s.Get(bounded(t), key, offset)
	require.NoError(t, err)
	defer body.Close()
	data, err := io.ReadAll(body)
	require.NoError(t, err)
	return string(data)
}

// contract tests the contract of a store.
func contract(t *testing.T, s archive.Store) {
	ctx := bounded(t)
	_, err := s.Get(ctx, "a/nothing", 0)
	require.ErrorIs(t, err, archive.ErrNotFound)
	objects, err := s.List(ctx, "a/")
	require.NoError(t, err)
	require.Empty(t, objects)
	require.NoError(t, s.Delete(ctx, "a/nothing"))

	require.NoError(t, put(ctx, s, "a/b/two", "0123456789"))
	require.NoError(t, put(ctx, s, "a/b/one", ""))
	require.NoError(t, put(ctx, s, "a/bc/three", "x"))
	require.Equal(t, "0123456789", get(t, s, "a/b/two", 0))
	require.Equal(t, "789", get(t, s, "a/b/two", 7))
	require.Empty(t, get(t, s, "a/b/two", 10))
	require.Empty(t, get(t, s, "a/b/one", 0))
	require.NoError(t, put(ctx, s, "a/b/two", "replaced"))
	require.Equal(t, "replaced", get(t, s, "a/b/two", 0))

	for prefix, want := range map[string][]string{
		"":      {"a/b/one", "a/b/two", "a/bc/three"},
		"a/b/":  {"a/b/one", "a/b/two"},
		"a/b":   {"a/b/one", "a/b/two", "a/bc/three"},
		"a/b/t": {"a/b/two"},
		"z/":    nil,
	} {
		objects, err := s.List(ctx, prefix)
		require.NoError(t, err)
		var keys []string
		for _, o := range objects {
			keys = append(keys, o.Key)
			require.WithinDuration(t, time.Now(), o.Modified, 10*time.Minute)
		}
		require.Equal(t, want, keys, "prefix %q", prefix)
	}
	objects, err = s.List(ctx, "a/b/two")
	require.NoError(t, err)
	require.EqualValues(t, len("replaced"), objects[0].Size)

	require.NoError(t, s.Delete(ctx, "a/b/two"))
	_, err = s.Get(ctx, "a/b/two", 0)
	require.ErrorIs(t, err, archive.ErrNotFound)

	// A body that ends early must not leave an object.
	require.Error(t, s.Put(ctx, "a/short", strings.NewReader("abc"), 10))
	_, err = s.Get(ctx, "a/short", 0)
	require.ErrorIs(t, err, archive.ErrNotFound)
	stopped, stop := context.WithCancel(ctx)
	stop()
	require.Error(t, put(stopped, s, "a/stopped", "x"))
	_, err = s.Get(ctx, "a/stopped", 0)
	require.ErrorIs(t, err, archive.ErrNotFound)

	const element = "parts/job_1[17]/1/log/0" // of a job array
	require.NoError(t, put(ctx, s, element, "element"))
	require.NoError(t, put(ctx, s, "parts/job_1[1]/1/log/0", "other"))
	require.Equal(t, "element", get(t, s, element, 0))
	objects, err = s.List(ctx, "parts/job_1[17]/")
	require.NoError(t, err)
	require.Len(t, objects, 1)
	require.Equal(t, element, objects[0].Key)
	require.NoError(t, s.Delete(ctx, element))
	_, err = s.Get(ctx, element, 0)
	require.ErrorIs(t, err, archive.ErrNotFound)

	for _, key := range []string{
		"", "/a", "a/", "a//b", "../a", "a/../b", "a/.hidden", "a b", "a\x00b", "[1]", "a/[1]", "a[]", "a[1", "a]", "a[1]b", "a[b]", "a[1][2]", "a[-1]", ".a[1]",
	} {
		require.Errorf(t, put(ctx, s, key, "x"), "key %q", key)
	}

	// Readers of an object that is replaced see one version or the other, never a mixture.
	versions := make([]string, 8)
	for i := range versions {
		versions[i] = strings.Repeat(fmt.Sprint(i), 200_000)
	}
	require.NoError(t, put(ctx, s, "big", versions[0]))
	var writers, readers sync.WaitGroup
	over := make(chan struct{})
	for _, v := range versions {
		writers.Go(func() { require.NoError(t, put(ctx, s, "big", v)) })
	}
	for range 2 {
		readers.Go(func() {
			for done := false; !done; {
				select {
				case <-over:
					done = true
				default:
				}
				require.Contains(t, versions, get(t, s, "big", 0))
			}
		})
	}
	writers.Wait()
	close(over)
	readers.Wait()
}

func TestDirectory_contract(t *testing.T) {
	address, err := archive.Local(t.TempDir())
	require.NoError(t, err)
	s, err := archive.Open(address, archive.Access{})
	require.NoError(t, err)
	contract(t, s)
}

func TestDirectory_leavesNothingAside(t *testing.T) {
	dir := t.TempDir()
	s, err := archive.Open("file://"+dir, archive.Access{})
	require.NoError(t, err)
	broken := io.MultiReader(bytes.NewReader(make([]byte, 100)), &failing{})
	require.ErrorContains(t, s.Put(bounded(t), "a/b", broken, 200), "torn")
	entries, err := os.ReadDir(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.Empty(t, entries)
	// A temporary file of a killed writer does not count as an object.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", ".put-1"), nil, 0o600))
	objects, err := s.List(bounded(t), "")
	require.NoError(t, err)
	require.Empty(t, objects)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("torn") }

// A share that is not mounted must not look like an empty archive: readers must not conclude that an object is missing,
// and writers must not write below the mount point.
func TestDirectory_thatIsNotThere(t *testing.T) {
	s, err := archive.Open("file://"+filepath.Join(t.TempDir(), "unmounted"), archive.Access{})
	require.NoError(t, err)
	require.Error(t, put(bounded(t), s, "a/b", "x"))
	_, err = s.Get(bounded(t), "a/b", 0)
	require.Error(t, err)
	require.NotErrorIs(t, err, archive.ErrNotFound)
	_, err = s.List(bounded(t), "a/")
	require.Error(t, err)
}

func bucketURL(server *s3server.Server, prefix string) string {
	return "s3://" + s3server.Bucket + prefix + "?endpoint=" + url.QueryEscape(server.URL) + "&region=us-east-1&path_style=true"
}

func TestBucket_contract(t *testing.T) {
	dir := t.TempDir()
	ca, err := pki.CreateCA(dir)
	require.NoError(t, err)
	files, err := ca.Issue(dir, "s3", pki.RoleGateway, "127.0.0.1")
	require.NoError(t, err)
	server := s3server.Start(t, porttest.Claim(t), files.Cert, files.Key, files.CA)
	access := archive.Access{KeyID: s3server.KeyID, Secret: s3server.Secret, CAFile: server.CAFile}
	for name, prefix := range map[string]string{"whole bucket": "", "prefix": "/clusters/one"} {
		t.Run(name, func(t *testing.T) {
			s, err := archive.Open(bucketURL(server, prefix), access)
			require.NoError(t, err)
			contract(t, s)
			objects, err := s.List(bounded(t), "")
			require.NoError(t, err)
			for _, o := range objects {
				require.NoError(t, s.Delete(bounded(t), o.Key))
			}
		})
	}

	wrong := map[string]struct {
		address string
		access  archive.Access
	}{
		"secret":    {bucketURL(server, ""), archive.Access{KeyID: s3server.KeyID, Secret: "guessed", CAFile: server.CAFile}},
		"authority": {bucketURL(server, ""), archive.Access{KeyID: s3server.KeyID, Secret: s3server.Secret}},
		"bucket":    {strings.Replace(bucketURL(server, ""), "//"+s3server.Bucket, "//other", 1), access},
	}
	for name, w := range wrong {
		t.Run("wrong "+name, func(t *testing.T) {
			s, err := archive.Open(w.address, w.access)
			require.NoError(t, err)
			require.Error(t, put(bounded(t), s, "a/b", "x"))
			_, err = s.Get(bounded(t), "a/b", 0)
			require.Error(t, err)
			require.NotErrorIs(t, err, archive.ErrNotFound, "nobody may conclude that the object is not there")
		})
	}
}

func TestOpen_saysWhatIsWrong(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	for address, want := range map[string]string{
		"":                              "not a URL of an archive",
		"/shared/dir":                   "give file:///DIR",
		"file://host/dir":               "not a URL of an archive",
		"ftp://host/dir":                "not a URL of an archive",
		"s3://key:secret@bucket":        "contains credentials",
		"s3://bucket?endpoint=host:99":  "give https://HOST:PORT",
		"s3://bucket?path_style=maybe":  "true or false",
		"s3://bucket?acl=public":        "unknown parameter",
		"s3://bucket/a/../b":            "prefix of the bucket",
		"s3://bucket/p?region=eu-west1": "AWS_ACCESS_KEY_ID",
	} {
		_, err := archive.Open(address, archive.Access{})
		require.ErrorContainsf(t, err, want, "%q", address)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	_, err := archive.Open("s3://bucket/p?region=eu-west1", archive.Access{})
	require.NoError(t, err)
	_, err = archive.Open("s3://bucket?endpoint=https://h:1", archive.Access{CAFile: "/no/such/file"})
	require.ErrorContains(t, err, "authority")
}
