package uploads

import (
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck_refuses(t *testing.T) {
	one := Sum([]byte("x"))
	file := func(path string) File { return File{Path: path, Size: 1, Pieces: []string{one}} }
	for says, files := range map[string][]File{
		"no file":                   {},
		"at most 100000":            make([]File, MaxFiles+1),
		"absolute":                  {file("/etc/passwd")},
		"is not safe":               {file("a/../../b")},
		`"./a" is not safe`:         {file("./a")},
		`"a//b" is not safe`:        {file("a//b")},
		`"" is not safe`:            {file("")},
		"NUL":                       {file("a\x00b")},
		"UTF-8":                     {file("a\xff")},
		"name of 256 bytes":         {file(strings.Repeat("a", 256))},
		"twice":                     {file("a"), file("a")},
		"both as a file and as a":   {file("a"), file("a/b")},
		`"a" is in the upload both`: {{Path: "a", Link: "b"}, file("a/b/c")},
		"more than 3 bytes":         {file("a"), file("b"), file("c"), file("d")},
		"1 bytes and 0 pieces":      {{Path: "a", Size: 1}},
		"-1 bytes":                  {{Path: "a", Size: -1}},
		"64 hexadecimal":            {{Path: "a", Size: 1, Pieces: []string{strings.ToUpper(one)}}},
		"both a file and a link":    {{Path: "a", Link: "b", Size: 1, Pieces: []string{one}}},
		"absolute links":            {{Path: "a", Link: "/etc"}},
		"out of the directory":      {{Path: "p/a", Link: "../../b"}},
		`".." at the beginning`:     {{Path: "a", Link: "b/../c"}},
		"beginning only":            {{Path: "p/q/a", Link: "./b/.."}},
	} {
		err := (&Tree{files}).Check(3)
		require.Error(t, err, says)
		require.ErrorAs(t, err, new(Invalid))
		require.ErrorContains(t, err, says)
	}
	fine := []File{file("a b/ü"), {Path: "p/l", Link: "../a b/ü"}, {Path: "..dots", Link: "."}, {Path: "q/w/e", Link: "../..//p/./l"}, {Path: "zero"}}
	require.NoError(t, (&Tree{fine}).Check(1))
}

func TestParseTree_stopsAtTheFirstFileThatIsTooMany(t *testing.T) {
	// 11 million files in 32 MiB.
	_, err := ParseTree([]byte(`{"files":[` + strings.Repeat("{},", MaxTree/3) + `{}]}`))
	require.ErrorContains(t, err, "more than 100000 files")
	tree, err := ParseTree([]byte(` {"x": [1, {}], "files": [{"path": "a"}, {"path": "b"}] } `))
	require.NoError(t, err)
	require.Equal(t, []File{{Path: "a"}, {Path: "b"}}, tree.Files)
	for _, bad := range []string{"", "[]", "{", `{"files":{}}`, `{"files":[1]}`, `{"files":[{}]`, `{"files":[]} x`, `{"files":[]}{}`} {
		_, err := ParseTree([]byte(bad))
		require.ErrorAs(t, err, new(Invalid), bad)
	}
}

// The folders of a tree are made by agents, outside of the limits of any task.
func TestCheck_limitsFolders(t *testing.T) {
	deep := &Tree{Files: []File{{Path: strings.Repeat("a/", 64) + "f"}}}
	require.ErrorContains(t, deep.Check(1), "fewer than 64 are allowed")
	many := &Tree{}
	for i := range 2000 {
		many.Files = append(many.Files, File{Path: strconv.Itoa(i) + "/" + strings.Repeat("a/", 60) + "f"})
	}
	require.ErrorContains(t, many.Check(1), "more than 100000 folders")
	many.Files = many.Files[:1000]
	require.NoError(t, many.Check(1))
}

// A tree is stored only if it can be read again.
func TestOffer_aTreeIsNotLongerThanItIsSent(t *testing.T) {
	store, _ := folderOf(t)
	k := NewKeeper(Config{Store: store})
	tree := &Tree{Files: []File{{Path: strings.Repeat("<", 200)}}}
	id, lacks, err := k.Offer(t.Context(), tenant, tree)
	require.NoError(t, err)
	require.Empty(t, lacks)
	text, err := read(t.Context(), store, treeKey(tenant, id), 400)
	require.NoError(t, err, "six characters for one")
	require.Contains(t, string(text), "<<<")
}

func TestPack_noPieceTwice(t *testing.T) {
	one := Piece{Sum([]byte("x")), 1}
	pack, err := EncodePack([]Piece{one, one}, []byte("xx"))
	require.NoError(t, err)
	_, _, err = decodePack(pack)
	require.ErrorContains(t, err, "in the pack twice")
}

// An id depends on everything that a tree says, and not on the order of its files.
func TestID(t *testing.T) {
	sum := Sum([]byte("x"))
	base := func() *Tree {
		return &Tree{[]File{{Path: "b", Size: 1, Pieces: []string{sum}}, {Path: "a", Link: "b"}}}
	}
	id := base().ID()
	require.True(t, ValidID(id))
	require.Equal(t, id, (&Tree{[]File{{Path: "a", Link: "b"}, {Path: "b", Size: 1, Pieces: []string{sum}}}}).ID())
	for _, change := range []func(*Tree){
		func(t *Tree) { t.Files[0].Path = "c" },
		func(t *Tree) { t.Files[0].Executable = true },
		func(t *Tree) { t.Files[0].Size = 2 },
		func(t *Tree) { t.Files[0].Pieces[0] = Sum([]byte("y")) },
		func(t *Tree) { t.Files[1].Link = "c" },
		func(t *Tree) { t.Files[1] = File{Path: "a"} },
		func(t *Tree) { t.Files = t.Files[:1] },
	} {
		other := base()
		change(other)
		require.NotEqual(t, id, other.ID())
	}
	for _, bad := range []string{"", "sha256:", id[7:], id + "0", strings.ToUpper(id), "sha256:" + strings.Repeat("/", 64)} {
		require.False(t, ValidID(bad), bad)
	}
}

// No link that passes the check leads out of the directory, however links lead through each other.
func TestCheckLink_noneLeadsOut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "c", "..", "..", "."}
	text := func(parts int) string {
		var all []string
		for range 1 + random.IntN(parts) {
			all = append(all, names[random.IntN(len(names))])
		}
		return strings.Join(all, "/")
	}
	passed, led := 0, 0
	for range 1000 {
		s := &Stored{}
		for range 6 {
			f := File{Path: path.Join(text(4), "x"), Link: text(6)}
			if f.check() == nil && (&Tree{append(s.Files, f)}).Check(0) == nil {
				s.Files = append(s.Files, f)
			}
		}
		// Links in the place of folders make chains.
		for _, name := range []string{"a", "b", "c"} {
			f := File{Path: name, Link: text(4)}
			if f.check() == nil && (&Tree{append(s.Files, f)}).Check(0) == nil {
				s.Files = append(s.Files, f)
			}
		}
		dir, err := filepath.EvalSymlinks(t.TempDir())
		require.NoError(t, err)
		inner := filepath.Join(dir, "1", "2", "3")
		require.NoError(t, os.MkdirAll(inner, 0o700))
		require.NoError(t, s.Unpack(t.Context(), inner, nil))
		for _, f := range s.Files {
			passed++
			to, err := filepath.EvalSymlinks(filepath.Join(inner, f.Path))
			if err == nil {
				led++
				require.True(t, to == inner || strings.HasPrefix(to, inner+"/"), "%s of %v leads to %s", f.Path, s.Files, to)
			}
		}
	}
	require.Greater(t, led, 200, "of %d links", passed)
}
