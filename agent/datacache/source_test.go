package datacache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/archive/s3server"
	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func TestLocalSourcesAreUsedWhereTheyAre(t *testing.T) {
	root, out := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "d", "a.jsonl"), "one")
	write(t, filepath.Join(root, "d", "sub", "b.jsonl"), "three")
	write(t, filepath.Join(out, "secret"), "secret")
	require.NoError(t, os.Symlink(filepath.Join(out, "secret"), filepath.Join(root, "link")))
	require.NoError(t, os.Symlink(filepath.Join(out, "secret"), filepath.Join(root, "d", "link")))
	cfg := config(t)
	cfg.Sources.Roots = []string{root}
	c := open(t, cfg)
	for _, path := range []string{filepath.Join(root, "d"), "file://" + root + "/d", "file://localhost" + root + "/d/"} {
		data := c.get(t, "t1", path, "a")
		require.True(t, data.Local)
		require.Equal(t, []string{"a.jsonl", "sub/b.jsonl"}, data.Files)
		require.EqualValues(t, 8, data.Size, "what a link leads out to does not count")
	}
	require.Equal(t, []string{"a.jsonl"}, c.get(t, "t1", root+"/d/a.jsonl", "a").Files)
	check, err := c.Probe(deadline(t), "t1", root+"/d", sources.Credentials{})
	require.NoError(t, err)
	require.Equal(t, Check{Files: 2, Size: 8}, check)
	entries, _ := c.Entries("t1")
	require.Empty(t, entries)

	// Paths outside are not examined, so it makes no difference whether they exist.
	for _, path := range []string{out + "/secret", out + "/none", root + "/../" + filepath.Base(out) + "/secret", "file:///etc/passwd", "/etc/shadow", "/etc/none", "/", "/dev/null"} {
		c.refuse(t, path, "jobs may not read files there on node n1: put it below "+root+", or add its directory to data_roots of the agent")
	}
	// A link that leads out gets exactly the same answer as a broken one.
	require.NoError(t, os.Symlink(filepath.Join(out, "none"), filepath.Join(root, "dangling")))
	for _, path := range []string{root + "/none", root + "/link", root + "/dangling", root + "/d/link"} {
		c.refuse(t, path, "node n1 has no such file: put it there")
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	c.refuse(t, root+"/fifo", "neither a file nor a directory")
	c.refuse(t, "train.jsonl", "is not an absolute path")
	c.refuse(t, "file://other/x", `has the host "other"`)
	c.refuse(t, "file:///x?y", "must not have a query")
}

func TestWithoutRootsNoFileOfTheNodeIsData(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "x")
	c := open(t, config(t))
	for _, path := range []string{dir + "/f", "/etc/shadow", "/etc/none", "file://" + dir + "/f"} {
		c.refuse(t, path, "jobs may not read files of node n1: list the directories with data in data_roots of its agent")
	}
}

func TestLinksBetweenRootsCount(t *testing.T) {
	base := t.TempDir()
	blobs, set, real := filepath.Join(base, "blobs"), filepath.Join(base, "set"), filepath.Join(base, "real")
	write(t, filepath.Join(blobs, "1"), "12345")
	write(t, filepath.Join(real, "own"), "x")
	require.NoError(t, os.Symlink("../blobs/1", filepath.Join(real, "a.jsonl")))
	require.NoError(t, os.Symlink("../blobs", filepath.Join(real, "dir")))
	require.NoError(t, os.Symlink("real", set))
	cfg := config(t)
	cfg.Sources.Roots = []string{blobs, set} // one of them through a link
	c := open(t, cfg)
	for _, path := range []string{set, real} {
		data := c.get(t, "t1", path, "a")
		require.Equal(t, real, data.Dir)
		require.Equal(t, []string{"a.jsonl", "own"}, data.Files)
		require.EqualValues(t, 6, data.Size)
	}
	require.EqualValues(t, 5, c.get(t, "t1", set+"/a.jsonl", "a").Size)
}

// The agent's own state cannot be used as data, except outputs of the tenant's jobs, and directories that an operator
// has listed.
func TestTheAgentsOwnStateIsNoData(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"state", "outputs/t1/job_1.attempt-1/f", "outputs/t2/job_2.attempt-1/f", "shared/f"} {
		write(t, filepath.Join(home, name), name)
	}
	require.NoError(t, os.Symlink(filepath.Join(home, "outputs/t2"), filepath.Join(home, "outputs/t1/link")))
	cfg := config(t)
	cfg.Sources.Roots, cfg.Sources.Private = []string{filepath.Dir(home), filepath.Join(home, "shared")}, private.New(home)
	cfg.Sources.Own = func(tenant string) []string { return []string{filepath.Join(home, "outputs", tenant)} }
	c := open(t, cfg)
	c.get(t, "t1", home+"/outputs/t1/job_1.attempt-1/f", "a")
	c.get(t, "t2", home+"/outputs/t2/job_2.attempt-1", "a")
	c.get(t, "t1", home+"/shared/f", "a")
	for _, path := range []string{"/state", "", "/outputs", "/outputs/t2/job_2.attempt-1/f", "/outputs/t1/../t2/job_2.attempt-1/f", "/outputs/t1/link/job_2.attempt-1/f", "/outputs/t1/link"} {
		c.refuse(t, home+path, "node n1 has no such file")
	}
	cfg.Sources.Roots = nil
	c = open(t, cfg)
	c.get(t, "t1", home+"/outputs/t1/job_1.attempt-1/f", "a")
	c.refuse(t, home+"/outputs/t2/job_2.attempt-1/f", "jobs may not read files of node n1")
}

func TestWhatIsNoSource(t *testing.T) {
	c := open(t, config(t))
	for path, want := range map[string]string{
		"ftp://h/x":             "ftp:// is not supported",
		"http://u:p@h/x":        "keep them out of paths",
		"http:///x":             "has no host",
		"http://a b/":           "not a URL",
		"s3:///key":             "s3://BUCKET/KEY",
		"s3://b/k?x=y":          "s3://BUCKET/KEY",
		"hf://":                 "hf://datasets/OWNER/NAME",
		"hf://squad":            "hf://datasets/OWNER/NAME",
		"hf://datasets/@v1":     "hf://datasets/OWNER/NAME",
		"hf://a/b@/c":           "hf://datasets/OWNER/NAME",
		"scaidrive://acme/x":    "scaidrive_url",
		"scaiatlas://acme/x":    "scaiatlas_url",
		"http://127.0.0.1:1/":   "node n1 cannot fetch from 127.0.0.1",
		"https://nohost.test/x": "nodes may not fetch data from nohost.test",
	} {
		t.Run(path, func(t *testing.T) {
			_, err := c.Probe(deadline(t), "t1", path, sources.Credentials{})
			if strings.HasPrefix(path, "https://nohost") {
				// Without a resolver the name cannot be resolved.
				require.ErrorContains(t, err, "nohost.test")
				return
			}
			require.ErrorContains(t, err, want)
		})
	}
}

func TestTheNodeItselfIsNotAsked(t *testing.T) {
	inside := serve(t, map[string][]byte{"/metrics": []byte("inside")})
	cfg := config(t)
	cfg.Sources.Hosts = nil
	open(t, cfg).refuse(t, inside.URL+"/metrics", "nodes may not fetch data from 127.0.0.1", "data_hosts")
	local := strings.Replace(inside.URL, "127.0.0.1", "localhost", 1)
	open(t, cfg).refuse(t, local+"/metrics", "nodes may not fetch data from localhost")
	require.Empty(t, inside.asked())
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

func TestScaiDriveAndScaiAtlas(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer drive-token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("ETag", `"`+r.URL.Path+`"`)
		switch r.URL.Path {
		case "/files/acme/set/":
			_, _ = w.Write([]byte(`{"files":[{"path":"a b.jsonl","size":1,"etag":"\"/files/acme/set/a b.jsonl\""},{"path":"sub/c","size":3}]}`))
		case "/files/acme/set/a b.jsonl":
			_, _ = w.Write([]byte("x"))
		case "/files/acme/set/sub/c":
			_, _ = w.Write([]byte("yyy"))
		case "/files/acme/evil/":
			_, _ = w.Write([]byte(`{"files":[{"path":"../../x"}]}`))
		case "/files/acme/both/":
			_, _ = w.Write([]byte(`{"files":[{"path":"a"},{"path":"a/b"}]}`))
		case "/files/acme/page/":
			_, _ = w.Write([]byte(`<html>`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	cfg := config(t)
	cfg.Sources.Drive.URL, cfg.Tries = server.URL+"/files", 1
	c := open(t, cfg)
	fetch := func(path, token string) (*Data, error) {
		return c.Fetch(deadline(t), Request{Tenant: "t1", Path: path, Credentials: sources.Credentials{ScaiDrive: token}})
	}
	data, err := fetch("scaidrive://acme/set/", "drive-token")
	require.NoError(t, err)
	require.Equal(t, []string{"a b.jsonl", "sub/c"}, data.Files)
	require.Equal(t, "yyy", contents(t, data, "sub/c"))
	data, err = fetch("scaidrive://acme/set/a b.jsonl", "drive-token")
	require.NoError(t, err)
	require.Equal(t, "x", contents(t, data, "a b.jsonl"))
	for path, want := range map[string]string{
		"scaidrive://acme/evil/":     "not a safe name",
		"scaidrive://acme/both/":     "as a file and as a directory",
		"scaidrive://acme/page/":     "sent an invalid answer",
		"scaidrive://acme/none":      "ScaiDrive has no such file (404)",
		"scaidrive://acme/a/../../x": `contains ".."`,
	} {
		_, err := fetch(path, "drive-token")
		require.ErrorContains(t, err, want)
	}
	_, err = fetch("scaidrive://acme/set/", "expired")
	require.ErrorContains(t, err, "its token may have expired")
	require.NotContains(t, err.Error(), "expired-")
	_, err = fetch("scaidrive://acme/set/", "")
	require.ErrorContains(t, err, "the job has no ScaiDrive token")
	_, err = c.Probe(deadline(t), "t1", "scaidrive://acme/set/", sources.Credentials{ScaiAtlas: "drive-token"})
	require.ErrorContains(t, err, "no ScaiDrive token", "the token of one service was offered to the other")
}

func TestTokensStayWhereTheyBelong(t *testing.T) {
	got := make(chan string, 10)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		_, _ = w.Write([]byte("x"))
	}))
	defer elsewhere.Close()
	drive := httptest.NewServer(http.RedirectHandler(strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1), http.StatusFound))
	defer drive.Close()
	cfg := config(t)
	cfg.Sources.Hosts, cfg.Sources.Drive.URL = []string{"*"}, drive.URL
	_, err := open(t, cfg).Fetch(deadline(t), Request{Tenant: "t1", Path: "scaidrive://a/b", Credentials: sources.Credentials{ScaiDrive: "hunter2"}})
	require.NoError(t, err)
	require.Empty(t, <-got, "a token was sent to where the service redirected to")
}

func TestARealObjectStore(t *testing.T) {
	server := s3server.Start(t, porttest.Claim(t), "", "", "")
	client, err := minio.New(strings.TrimPrefix(server.URL, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(s3server.KeyID, s3server.Secret, ""), Region: "us-east-1", BucketLookup: minio.BucketLookupPath,
	})
	require.NoError(t, err)
	put := func(key, text string) {
		_, err := client.PutObject(deadline(t), s3server.Bucket, key, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{})
		require.NoError(t, err)
	}
	big := string(noise(3 << 20))
	put("set/train.jsonl", "one")
	put("set/sub/big", big)
	put("other", "other")
	cfg := config(t)
	cfg.Sources.Hosts = []string{"example.org"}
	cfg.Sources.S3 = sources.S3{Endpoint: server.URL, Region: "us-east-1", PathStyle: true, KeyID: s3server.KeyID, Secret: s3server.Secret}
	c := open(t, cfg)
	at := "s3://" + s3server.Bucket
	data := c.get(t, "t1", at+"/set", "a")
	require.Equal(t, []string{"sub/big", "train.jsonl"}, data.Files)
	require.Equal(t, big, contents(t, data, "sub/big"))
	require.Equal(t, data, c.get(t, "t1", at+"/set", "b"))
	require.EqualValues(t, 1, c.Stats().Hits)
	require.Equal(t, data.Digest, c.get(t, "t1", at+"/set/", "b").Digest)
	require.Equal(t, "other", contents(t, c.get(t, "t1", at+"/other", "a"), "other"))
	put("other", "changed")
	require.Equal(t, "changed", contents(t, c.get(t, "t1", at+"/other", "a"), "other"))
	c.refuse(t, at+"/none", "contains no file")
	c.refuse(t, "s3://no-such-bucket/x", "no bucket")

	_, err = c.Fetch(deadline(t), Request{Tenant: "t1", Path: at + "/other", Credentials: sources.Credentials{AWSKeyID: "who", AWSSecret: "what"}})
	require.ErrorContains(t, err, "AWS_ACCESS_KEY_ID", "the job's own key goes before the node's")

	t.Run("goes on where it stopped", func(t *testing.T) {
		s, err := c.from.Resolve(deadline(t), "t1", at+"/set/sub/big", sources.Credentials{})
		require.NoError(t, err)
		body, from, err := s.Files[0].Open(context.Background(), 1<<20)
		require.NoError(t, err)
		defer body.Close()
		require.EqualValues(t, 1<<20, from)
		require.True(t, s.Files[0].Strong)
		put("set/sub/big", fmt.Sprint("another ", big))
		_, _, err = s.Files[0].Open(context.Background(), 1<<20)
		require.ErrorIs(t, err, sources.ErrChanged)
	})
}
