package uploads

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/archive"
)

const tenant = "acme"

// folderOf makes an archive in a directory.
func folderOf(t testing.TB) (archive.Store, string) {
	t.Helper()
	dir := t.TempDir()
	store, err := archive.Open("file://"+dir, archive.Access{})
	require.NoError(t, err)
	return store, dir
}

// sources are the contents of files, by path. A content that begins with "-> " is a link; a path that ends with "*" is executable.
type sources map[string]string

// tree returns the tree of the files, and their pieces.
func (s sources) tree() (*Tree, map[string]string) {
	t, pieces := &Tree{}, map[string]string{}
	for path, content := range s {
		if target, link := strings.CutPrefix(content, "-> "); link {
			t.Files = append(t.Files, File{Path: path, Link: target})
			continue
		}
		f := File{Path: strings.TrimSuffix(path, "*"), Executable: strings.HasSuffix(path, "*"), Size: int64(len(content))}
		for at := 0; at < len(content); at += PieceSize {
			piece := content[at:min(len(content), at+PieceSize)]
			f.Pieces = append(f.Pieces, Sum([]byte(piece)))
			pieces[f.Pieces[len(f.Pieces)-1]] = piece
		}
		t.Files = append(t.Files, f)
	}
	return t, pieces
}

// packOf makes a pack of some pieces.
func packOf(t testing.TB, needs []Need, pieces map[string]string) []byte {
	t.Helper()
	var listed []Piece
	var content strings.Builder
	for _, n := range needs {
		listed = append(listed, Piece{n.Sum, n.Size})
		content.WriteString(pieces[n.Sum])
	}
	pack, err := EncodePack(listed, []byte(content.String()))
	require.NoError(t, err)
	return pack
}

// sent sends files of a tenant completely, and returns their id and how many pieces were sent.
func (s sources) sent(t testing.TB, k *Keeper, tenant string) (string, int) {
	t.Helper()
	tree, pieces := s.tree()
	id, lacks, err := k.Offer(t.Context(), tenant, tree)
	require.NoError(t, err)
	for _, need := range lacks {
		_, err := k.PutPack(t.Context(), tenant, packOf(t, []Need{need}, pieces))
		require.NoError(t, err)
	}
	again, still, err := k.Offer(t.Context(), tenant, tree)
	require.NoError(t, err)
	require.Empty(t, still)
	require.Equal(t, id, again)
	return id, len(lacks)
}

// unpacked returns the files of an upload in a new directory.
func unpacked(t testing.TB, store archive.Store, tenant, id string) (string, error) {
	t.Helper()
	s, err := Load(t.Context(), store, tenant, id)
	if err != nil {
		return "", err
	}
	dir, packs := t.TempDir(), t.TempDir()
	return dir, s.Unpack(t.Context(), dir, func(n int) (*os.File, error) {
		content, err := read(t.Context(), store, PackKey(tenant, s.Packs[n].Name), 1<<30)
		if err != nil {
			return nil, err
		}
		name := filepath.Join(packs, s.Packs[n].Name)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return nil, err
		}
		return os.Open(name)
	})
}

var project = sources{
	"train.py": "import model", "run.sh*": "#!/bin/sh\n", "pkg/model.py": "X = 7", "pkg/empty": "", "pkg/deep/er/data": strings.Repeat("w", PieceSize+5),
	"same": "X = 7", "pkg/up": "-> ../train.py", "here": "-> pkg/deep", "nowhere": "-> pkg/none",
}

func TestUpload_comesBackAsItWas(t *testing.T) {
	store, _ := folderOf(t)
	id, sent := project.sent(t, NewKeeper(Config{Store: store}), tenant)
	require.Equal(t, 5, sent, "equal contents are one piece")
	dir, err := unpacked(t, store, tenant, id)
	require.NoError(t, err)
	for path, content := range project {
		at := filepath.Join(dir, strings.TrimSuffix(path, "*"))
		if target, link := strings.CutPrefix(content, "-> "); link {
			to, err := os.Readlink(at)
			require.NoError(t, err)
			require.Equal(t, target, to)
			continue
		}
		got, err := os.ReadFile(at)
		require.NoError(t, err)
		require.Equal(t, content, string(got), path)
		info, err := os.Stat(at)
		require.NoError(t, err)
		require.Equal(t, strings.HasSuffix(path, "*"), info.Mode()&0o100 != 0, path)
	}
}

// Half of an upload goes through one gateway, the rest through another; what is the archive has is not sent again.
func TestOffer_resumesThroughAnotherKeeper(t *testing.T) {
	store, _ := folderOf(t)
	one, other := NewKeeper(Config{Store: store}), NewKeeper(Config{Store: store})
	files := sources{}
	for i := range 10 {
		files[fmt.Sprintf("f%d", i)] = fmt.Sprint("content ", i)
	}
	tree, pieces := files.tree()
	id, lacks, err := one.Offer(t.Context(), tenant, tree)
	require.NoError(t, err)
	require.Len(t, lacks, 10)
	_, err = Load(t.Context(), store, tenant, id)
	require.ErrorIs(t, err, ErrUnknown, "an upload that is not complete is none")
	require.ErrorIs(t, other.Confirm(t.Context(), tenant, id), ErrUnknown)

	_, err = one.PutPack(t.Context(), tenant, packOf(t, lacks[:5], pieces))
	require.NoError(t, err)
	_, rest, err := other.Offer(t.Context(), tenant, tree)
	require.NoError(t, err)
	require.Equal(t, lacks[5:], rest)
	_, err = other.PutPack(t.Context(), tenant, packOf(t, rest, pieces))
	require.NoError(t, err)
	_, rest, err = one.Offer(t.Context(), tenant, tree)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.NoError(t, other.Confirm(t.Context(), tenant, id))

	files["f3"] = "changed"
	_, sent := files.sent(t, other, tenant)
	require.Equal(t, 1, sent, "unchanged files are not sent again")
}

// Another tenant can neither use an upload nor learn which contents the archive has.
func TestOffer_tenantsAreApart(t *testing.T) {
	store, _ := folderOf(t)
	k := NewKeeper(Config{Store: store})
	id, sent := project.sent(t, k, tenant)
	for _, other := range []string{"initech", "acme/", "ACME", ""} {
		require.ErrorIs(t, k.Confirm(t.Context(), other, id), ErrUnknown)
		_, err := Load(t.Context(), store, other, id)
		require.ErrorIs(t, err, ErrUnknown)
		tree, _ := project.tree()
		_, lacks, err := k.Offer(t.Context(), other, tree)
		require.NoError(t, err)
		require.Len(t, lacks, sent)
	}
}

func TestPutPack_refusesOtherContents(t *testing.T) {
	store, dir := folderOf(t)
	k := NewKeeper(Config{Store: store})
	for says, pack := range map[string]string{
		"differs from its digest": `{"pieces":[{"sha256":"` + Sum([]byte("x")) + `","size":1}]}` + "\ny",
		"is no pack":              "nothing",
		"at least one piece":      "{}\n",
		"not in the pack":         `{"pieces":[{"sha256":"` + Sum([]byte("x")) + `","size":2}]}` + "\nx",
		"behind its last piece":   `{"pieces":[{"sha256":"` + Sum([]byte("x")) + `","size":1}]}` + "\nxy",
		"at most":                 `{"pieces":[{"sha256":"","size":1}]}` + "\n" + strings.Repeat("x", PackSize+1),
	} {
		_, err := k.PutPack(t.Context(), tenant, []byte(pack))
		require.ErrorAs(t, err, new(Invalid))
		require.ErrorContains(t, err, says)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing of it is stored")
}

func TestUnpack_damageIsFound(t *testing.T) {
	store, _ := folderOf(t)
	id, _ := sources{"a": "the content"}.sent(t, NewKeeper(Config{Store: store}), tenant)
	s, err := Load(t.Context(), store, tenant, id)
	require.NoError(t, err)
	require.NoError(t, put(t.Context(), store, PackKey(tenant, s.Packs[0].Name), []byte("the cOntent")))
	_, err = unpacked(t, store, tenant, id)
	require.ErrorContains(t, err, `"a"`)
	require.ErrorContains(t, err, "differs from what was sent")

	// A list of files that was replaced is not believed, not even one that is well-formed.
	s.Files = append(s.Files, File{Path: "evil", Link: "../../etc"})
	require.NoError(t, putJSON(t.Context(), store, treeKey(tenant, id), s))
	_, err = Load(t.Context(), store, tenant, id)
	require.ErrorContains(t, err, "another one")
	evil := s.ID()
	require.NoError(t, putJSON(t.Context(), store, treeKey(tenant, evil), s))
	_, err = Load(t.Context(), store, tenant, evil)
	require.ErrorContains(t, err, "out of the directory", "the node checks links itself")
	s.Files = []File{{Path: "a", Size: 11, Pieces: []string{Sum([]byte("the content"))}}}
	s.Places = []place{{0, 5}}
	require.NoError(t, putJSON(t.Context(), store, treeKey(tenant, id), s))
	_, err = Load(t.Context(), store, tenant, id)
	require.ErrorContains(t, err, "is in no pack")
}

func TestUnpack_ends(t *testing.T) {
	store, _ := folderOf(t)
	id, _ := project.sent(t, NewKeeper(Config{Store: store}), tenant)
	s, err := Load(t.Context(), store, tenant, id)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Unpack(ctx, t.TempDir(), func(int) (*os.File, error) { return nil, os.ErrNotExist }), context.Canceled)
}

// Ten thousand small files are a few objects, and their transfer is quick.
func TestUpload_tenThousandFiles(t *testing.T) {
	store, _ := folderOf(t)
	k := NewKeeper(Config{Store: store})
	files := sources{}
	for i := range 10_000 {
		files[fmt.Sprintf("pkg%d/mod%d.py", i%100, i)] = fmt.Sprintf("VALUE = %d\n%s", i, strings.Repeat("#", 300))
	}
	tree, pieces := files.tree()
	began := time.Now()
	id, lacks, err := k.Offer(t.Context(), tenant, tree)
	require.NoError(t, err)
	require.Len(t, lacks, 10_000)
	_, err = k.PutPack(t.Context(), tenant, packOf(t, lacks, pieces))
	require.NoError(t, err)
	_, lacks, err = k.Offer(t.Context(), tenant, tree)
	require.NoError(t, err)
	require.Empty(t, lacks)
	t.Log("kept after", time.Since(began))
	began = time.Now()
	dir, err := unpacked(t, store, tenant, id)
	require.NoError(t, err)
	t.Log("unpacked after", time.Since(began))
	got, err := os.ReadFile(filepath.Join(dir, "pkg42/mod9942.py"))
	require.NoError(t, err)
	require.Equal(t, files["pkg42/mod9942.py"], string(got))
	objects, err := store.List(t.Context(), top)
	require.NoError(t, err)
	require.Len(t, objects, 3)
}
