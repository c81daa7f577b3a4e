package checkpoints

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExtract(t *testing.T) {
	f := newFolder(t)
	m := memory{"weights": "abc", "sub/deep/one": "1", "empty": "", "latest": "-> sub/deep", "sub/link": "-> weights"}
	s, err := Save(t.Context(), f, "k/c1", m.source())
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, s.Tar(t.Context(), &text, time.Unix(7, 0)))
	got, err := Digest(bytes.NewReader(text.Bytes()))
	require.NoError(t, err)
	require.Equal(t, s.Digest(), got)

	at := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, Extract(bytes.NewReader(text.Bytes()), at, s.Digest()))
	for name, want := range map[string]string{"weights": "abc", "sub/deep/one": "1", "empty": "", "latest/one": "1", "sub/link": "abc"} {
		text, err := os.ReadFile(filepath.Join(at, name))
		require.NoError(t, err, name)
		require.Equal(t, want, string(text))
	}
	info, err := os.Stat(filepath.Join(at, "weights"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	require.ErrorContains(t, Extract(bytes.NewReader(text.Bytes()), at, s.Digest()), "already")

	// If anything is missing or wrong, no directory is created.
	where := t.TempDir()
	for name, bad := range map[string]struct {
		text   []byte
		digest string
	}{
		"cut":         {text.Bytes()[:700], s.Digest()},
		"a file less": {append(text.Bytes()[:1024:1024], make([]byte, 1024)...), s.Digest()},
		"another":     {text.Bytes(), "0000"},
	} {
		require.Error(t, Extract(bytes.NewReader(bad.text), filepath.Join(where, "c"), bad.digest), name)
		left, err := os.ReadDir(where)
		require.NoError(t, err)
		require.Empty(t, left, name)
	}
}

// Extract does not trust archives.
func TestExtract_refusesHostileArchives(t *testing.T) {
	for name, headers := range map[string][]tar.Header{
		"above":          {{Name: "../a", Typeflag: tar.TypeReg}},
		"absolute":       {{Name: "/tmp/a", Typeflag: tar.TypeReg}},
		"link out":       {{Name: "a", Linkname: "../../etc", Typeflag: tar.TypeSymlink}},
		"absolute link":  {{Name: "a", Linkname: "/etc", Typeflag: tar.TypeSymlink}},
		"through a link": {{Name: "d/x", Typeflag: tar.TypeReg}, {Name: "a", Linkname: "d", Typeflag: tar.TypeSymlink}, {Name: "a/x", Typeflag: tar.TypeReg}},
		"hard link":      {{Name: "a", Linkname: "/etc/passwd", Typeflag: tar.TypeLink}},
		"device":         {{Name: "a", Typeflag: tar.TypeChar}},
		"twice":          {{Name: "a", Typeflag: tar.TypeReg}, {Name: "a", Typeflag: tar.TypeReg}},
	} {
		var text bytes.Buffer
		w := tar.NewWriter(&text)
		for _, h := range headers {
			require.NoError(t, w.WriteHeader(&h))
		}
		require.NoError(t, w.Close())
		where := t.TempDir()
		_, err := Digest(bytes.NewReader(text.Bytes()))
		require.Error(t, err, name)
		require.Error(t, Extract(bytes.NewReader(text.Bytes()), filepath.Join(where, "c"), ""), name)
		left, err := os.ReadDir(where)
		require.NoError(t, err)
		require.Empty(t, left, name)
	}
}
