package datacache

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/datacache/sources"
)

// hubRepo is a repository of a fakeHub.
type hubRepo struct {
	commit  string
	files   map[string]string // in order of the keys of a listing
	large   map[string]bool   // stored by the service for large files
	gated   bool
	private bool
	revs    map[string]bool
}

// fakeHub answers as huggingface.co does. One answer lists a repository. Small files are served after a relative
// redirect, large ones by another host, which takes no tokens but signatures that expire soon. A missing and a private
// repository get the same answer, apart from a header.
type fakeHub struct {
	*httptest.Server
	cdn    *httptest.Server
	repos  map[string]*hubRepo // by kind/name
	moved  map[string]string   // old names
	tokens map[string]bool     // that may read gated and private repositories

	mu         sync.Mutex
	signatures map[string]string // the file that each one is for; each is accepted once
	signed     int
	cut        map[string]int // bytes after which the transfer of a file breaks, once
	ranges     []string
	seen       []string // tokens in requests
}

func newFakeHub(t *testing.T) *fakeHub {
	h := &fakeHub{
		repos: map[string]*hubRepo{}, moved: map[string]string{}, tokens: map[string]bool{"hf_reader": true},
		signatures: map[string]string{}, cut: map[string]int{},
	}
	h.Server = httptest.NewServer(http.HandlerFunc(h.answer))
	h.cdn = httptest.NewServer(http.HandlerFunc(h.deliver))
	t.Cleanup(h.Close)
	t.Cleanup(h.cdn.Close)
	return h
}

func (h *fakeHub) cache(t *testing.T) *Cache {
	cfg := config(t)
	// The hub is allowed because the operator has configured it; the host that it redirects to must be allowed, too.
	cfg.Sources.Hosts, cfg.Sources.Hub, cfg.Tries = []string{"127.0.0.1"}, sources.Service{URL: h.URL + "/hub/"}, 2
	return open(t, cfg)
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Error-Code", code)
	w.Header().Set("X-Error-Message", message)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message})
}

func (h *fakeHub) answer(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	h.mu.Lock()
	h.seen = append(h.seen, token)
	h.mu.Unlock()
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), "/hub/")
	api := strings.HasPrefix(path, "api/")
	path = strings.TrimPrefix(path, "api/")
	kept := strings.HasPrefix(path, "resolve-cache/")
	path = strings.TrimPrefix(path, "resolve-cache/")
	if rest, found := strings.CutPrefix(path, "datasets/"); found {
		path = "datasets/" + rest
	} else if !strings.HasPrefix(path, "models/") {
		path = "models/" + path
	}
	for old, now := range h.moved {
		if rest, found := strings.CutPrefix(path, old+"/"); found {
			to := "/hub/" + strings.TrimPrefix(now, "models/") + "/" + rest
			if api {
				to = "/hub/api/" + now + "/" + rest + "?" + r.URL.RawQuery
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
	}
	middle := "/resolve/"
	if api && !kept {
		middle = "/revision/"
	}
	if api && strings.Contains(path, "/tree/") {
		middle = "/tree/"
	}
	name, rest, found := strings.Cut(path, middle)
	repo := h.repos[name]
	switch {
	case !ok || !found || r.Header.Get("Accept-Encoding") != "identity":
		http.Error(w, "<html>no such page</html>", http.StatusNotFound)
	case repo == nil || repo.private && !h.tokens[token]:
		// The answer must not show which of the two it is.
		status := http.StatusNotFound
		if token == "" {
			status = http.StatusUnauthorized
		}
		fail(w, status, "RepoNotFound", "Repository not found")
	case api && !kept && middle == "/tree/":
		h.tree(w, r, repo, rest)
	case api && !kept:
		h.list(w, r, repo, rest)
	default:
		h.resolve(w, r, repo, name, rest, kept, token)
	}
}

func (h *fakeHub) list(w http.ResponseWriter, r *http.Request, repo *hubRepo, escaped string) {
	revision, _ := url.PathUnescape(escaped)
	if strings.Contains(escaped, "/") || revision != "main" && revision != repo.commit && !repo.revs[revision] {
		fail(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
		return
	}
	var siblings []map[string]any
	for name, text := range repo.files {
		if len(siblings) == 1200 {
			break // the connection breaks without an answer
		}
		one := map[string]any{"rfilename": name}
		if r.URL.Query().Get("blobs") == "true" {
			one["size"], one["blobId"] = len(text), blob(text)
			if repo.large[name] {
				one["lfs"] = map[string]any{"sha256": sum(text), "size": len(text), "pointerSize": 134}
			}
		}
		siblings = append(siblings, one)
	}
	answer := map[string]any{"_id": "6", "id": "x", "private": repo.private, "gated": false, "sha": repo.commit, "siblings": siblings}
	if repo.gated {
		answer["gated"] = "manual"
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// tree lists a commit in pages, including directories.
func (h *fakeHub) tree(w http.ResponseWriter, r *http.Request, repo *hubRepo, commit string) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	after := r.URL.Query().Get("cursor")
	if commit != repo.commit || r.URL.Query().Get("recursive") != "true" || limit < 1 || limit > 1000 {
		fail(w, http.StatusBadRequest, "", "bad request")
		return
	}
	entries := []map[string]any{}
	if after == "" {
		entries = append(entries, map[string]any{"type": "directory", "oid": "d", "size": 0, "path": "data"})
	}
	for _, name := range slices.Sorted(maps.Keys(repo.files)) {
		if name <= after {
			continue
		}
		if len(entries) == limit {
			query := r.URL.Query()
			query.Set("cursor", entries[len(entries)-1]["path"].(string))
			w.Header().Set("Link", "<"+h.URL+r.URL.Path+"?"+query.Encode()+`>; rel="next"`)
			break
		}
		text := repo.files[name]
		one := map[string]any{"type": "file", "oid": blob(text), "size": len(text), "path": name}
		if repo.large[name] {
			one["lfs"] = map[string]any{"oid": sum(text), "size": len(text), "pointerSize": 134}
		}
		entries = append(entries, one)
	}
	_ = json.NewEncoder(w).Encode(entries)
}

func (h *fakeHub) resolve(w http.ResponseWriter, r *http.Request, repo *hubRepo, name, rest string, kept bool, token string) {
	commit, escaped, _ := strings.Cut(rest, "/")
	file, _ := url.PathUnescape(escaped)
	text, ok := repo.files[file]
	switch {
	case commit != repo.commit:
		fail(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+commit)
		return
	case repo.gated && !h.tokens[token] && token == "":
		fail(w, http.StatusUnauthorized, "GatedRepo", "Access to model x is restricted. You must be authenticated to access it.")
		return
	case repo.gated && !h.tokens[token]:
		fail(w, http.StatusForbidden, "GatedRepo", "Access to model x is restricted and you are not in the authorized list.")
		return
	case !ok:
		fail(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	w.Header().Set("X-Repo-Commit", repo.commit)
	if !repo.large[file] {
		if !kept {
			kind, repository, _ := strings.Cut(name, "/")
			w.Header().Set("Location", "/hub/api/resolve-cache/"+kind+"/"+repository+"/resolve/"+rest)
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("ETag", `"`+blob(text)+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
		return
	}
	h.mu.Lock()
	h.signed++
	signature := fmt.Sprint("s", h.signed)
	h.signatures[signature] = text
	h.mu.Unlock()
	w.Header().Set("X-Linked-ETag", `"`+sum(text)+`"`)
	w.Header().Set("X-Linked-Size", fmt.Sprint(len(text)))
	w.Header().Set("ETag", `"`+sum(text)+`"`)
	w.Header().Set("Location", h.cdn.URL+"/repos/"+sum(text)+"?Expires=1&Signature="+signature)
	w.WriteHeader(http.StatusFound)
}

// deliver is the other host. It accepts each signature once, and refuses requests with a token.
func (h *fakeHub) deliver(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	signature := r.URL.Query().Get("Signature")
	text, ok := h.signatures[signature]
	delete(h.signatures, signature)
	at := -1
	if r.Method == http.MethodGet {
		h.ranges = append(h.ranges, r.Header.Get("Range"))
		if n, cut := h.cut[sum(text)]; cut {
			at = n
			delete(h.cut, sum(text))
		}
	}
	h.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "":
		http.Error(w, "<Error><Code>InvalidArgument</Code><Message>Only one auth mechanism allowed</Message></Error>", http.StatusBadRequest)
	case !ok || "/repos/"+sum(text) != r.URL.Path:
		http.Error(w, "<Error><Code>AccessDenied</Code></Error>", http.StatusForbidden)
	case at >= 0:
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = w.Write([]byte(text[:at]))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	default:
		w.Header().Set("ETag", `"`+blob(text)[:16]+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(text)))
	}
}

// blob returns git's object id of a file.
func blob(text string) string {
	s := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))
	return hex.EncodeToString(s[:])
}

// sharded returns a repository of a typical model: weights in several large files, and an index.
func sharded() *hubRepo {
	return &hubRepo{
		commit: strings.Repeat("c", 40), revs: map[string]bool{"refs/pr/1": true, "v1": true},
		files: map[string]string{
			"config.json": `{"architectures":["LlamaForCausalLM"]}`, "tokenizer.json": "{}", ".gitattributes": "*.safetensors filter=lfs",
			"model.safetensors.index.json":     `{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`,
			"model-00001-of-00002.safetensors": string(noise(300_000)), "model-00002-of-00002.safetensors": string(noise(200_000)),
		},
		large: map[string]bool{"model-00001-of-00002.safetensors": true, "model-00002-of-00002.safetensors": true},
	}
}

func TestTheHub_aShardedModel(t *testing.T) {
	h := newFakeHub(t)
	repo := sharded()
	h.repos["models/acme/llama"] = repo
	h.moved["models/llama"] = "models/acme/llama"
	first := repo.files["model-00001-of-00002.safetensors"]
	h.cut[sum(first)] = 120_000
	c := h.cache(t)
	data := c.get(t, "t1", "hf://models/acme/llama", "a")
	require.Equal(t, []string{
		".gitattributes", "config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json",
	}, data.Files)
	for name, want := range repo.files {
		require.Equal(t, want, contents(t, data, name), name)
	}
	require.Contains(t, h.ranges, "bytes=120000-", "what broke goes on by a signature of its own")
	before := h.signed
	for _, same := range []string{"hf://models/acme/llama@refs%2Fpr%2F1", "hf://models/llama", "hf://models/llama@v1"} {
		require.Equal(t, data.Digest, c.get(t, "t1", same, "a").Digest, same)
	}
	require.Equal(t, data, c.get(t, "t1", "hf://models/acme/llama", "a"))
	require.Equal(t, before+6, h.signed, "three names, and the fourth time nothing is fetched")
	require.Equal(t, []string{"config.json"}, c.get(t, "t1", "hf://models/acme/llama/config.json", "a").Files)
	c.refuse(t, "hf://models/acme/llama/nothing", "contains no file")
	c.refuse(t, "hf://models/acme/llama@v9", `acme/llama has no revision "v9"`)
	c.refuse(t, "hf://acme/llama", "has no repository acme/llama among its datasets, or keeps it private")

	t.Run("that is not what it was said to be", func(t *testing.T) {
		evil := sharded()
		h.repos["models/acme/evil"] = evil
		name := "model-00001-of-00002.safetensors"
		good := evil.files[name]
		s, err := c.from.Resolve(deadline(t), "t1", "hf://models/acme/evil/"+name, sources.Credentials{})
		require.NoError(t, err)
		require.Equal(t, sum(good), s.Files[0].SHA256)
		evil.files[name] = string(noise(300_001))[:300_000]
		f := &flight{cache: c, source: s, dir: t.TempDir()}
		_, err = f.file(deadline(t), 0)
		require.ErrorContains(t, err, "does not match the SHA-256")
	})
}

func TestTheHub_dataSets(t *testing.T) {
	h := newFakeHub(t)
	h.repos["datasets/acme/rows"] = &hubRepo{commit: "abc", files: map[string]string{"README.md": "read me", "data/train.jsonl": "rows", "data/a b.parquet": "parquet"}, large: map[string]bool{"data/a b.parquet": true}}
	h.repos["datasets/acme/squad"] = &hubRepo{commit: "def", files: map[string]string{"x": "y"}}
	h.moved["datasets/squad"] = "datasets/acme/squad"
	c := h.cache(t)
	require.Equal(t, "parquet", contents(t, c.get(t, "t1", "hf://datasets/acme/rows", "a"), "data/a b.parquet"))
	require.Equal(t, []string{"a b.parquet", "train.jsonl"}, c.get(t, "t1", "hf://acme/rows/data", "a").Files)
	require.Equal(t, []string{"train.jsonl"}, c.get(t, "t1", "hf://acme/rows/data/train.jsonl", "a").Files)
	require.Equal(t, []string{"x"}, c.get(t, "t1", "hf://datasets/squad", "a").Files)
}

// The hub's answer about a repository lists some thousands of files and silently omits the others. A data set without
// some of its files is worse than none.
func TestTheHub_manyFiles(t *testing.T) {
	h := newFakeHub(t)
	repo := &hubRepo{commit: "abc", files: map[string]string{}, large: map[string]bool{"data/2499.bin": true}}
	for i := range 2500 {
		repo.files[fmt.Sprintf("data/%04d.bin", i)] = fmt.Sprint(i)
	}
	h.repos["datasets/acme/images"] = repo
	c := h.cache(t)
	check, err := c.Probe(deadline(t), "t1", "hf://datasets/acme/images", sources.Credentials{})
	require.NoError(t, err)
	require.Equal(t, Check{Files: 2500, Size: 10*1 + 90*2 + 900*3 + 1500*4}, check)
	require.Equal(t, "2499", contents(t, c.get(t, "t1", "hf://datasets/acme/images/data/2499.bin", "a"), "2499.bin"))
	s, err := c.from.Resolve(deadline(t), "t1", "hf://datasets/acme/images/data/2499.bin", sources.Credentials{})
	require.NoError(t, err)
	require.Equal(t, sum("2499"), s.Files[0].SHA256)
}

// A user without access gets an error with the reason and the remedy, also from Probe.
func TestTheHub_whatIsGatedOrPrivate(t *testing.T) {
	h := newFakeHub(t)
	gated, private := sharded(), sharded()
	gated.gated, private.private = true, true
	h.repos["models/acme/gated"], h.repos["models/acme/private"] = gated, private
	for name, test := range map[string]struct{ repo, token, want string }{
		"gated, nobody":            {"gated", "", "acme/gated is gated on the Hugging Face hub"},
		"gated, somebody else":     {"gated", "hf_other", "HF_TOKEN"},
		"gated, with leave":        {"gated", "hf_reader", ""},
		"private, nobody":          {"private", "", "no repository acme/private among its models, or keeps it private"},
		"private, somebody else":   {"private", "hf_other", "or keeps it private"},
		"private, a member":        {"private", "hf_reader", ""},
		"not there, nobody":        {"none", "", "no repository acme/none among its models, or keeps it private"},
		"not there, somebody else": {"none", "hf_other", "or keeps it private"},
	} {
		t.Run(name, func(t *testing.T) {
			c := h.cache(t)
			credentials := sources.Credentials{HubToken: test.token}
			_, probed := c.Probe(deadline(t), "t1", "hf://models/acme/"+test.repo, credentials)
			data, err := c.Fetch(deadline(t), Request{Tenant: "t1", Path: "hf://models/acme/" + test.repo, Credentials: credentials, What: "model"})
			if test.want == "" {
				require.NoError(t, probed)
				require.NoError(t, err)
				require.Len(t, data.Files, 6)
				return
			}
			require.ErrorContains(t, probed, test.want)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "model hf://models/acme/"+test.repo+": ")
			require.True(t, sources.Missing(err))
		})
	}
	t.Run("leave that one job has is not another's", func(t *testing.T) {
		c := h.cache(t)
		_, err := c.Fetch(deadline(t), Request{Tenant: "t1", Path: "hf://models/acme/gated", Credentials: sources.Credentials{HubToken: "hf_reader"}})
		require.NoError(t, err)
		_, err = c.Fetch(deadline(t), Request{Tenant: "t1", Path: "hf://models/acme/gated"})
		require.ErrorContains(t, err, "is gated")
	})
	t.Run("the token of the node", func(t *testing.T) {
		cfg := config(t)
		cfg.Sources.Hub = sources.Service{URL: h.URL + "/hub", Token: "hf_reader"}
		open(t, cfg).get(t, "t1", "hf://models/acme/private", "a")
	})
}

func TestWhatIsMissing(t *testing.T) {
	s := serve(t, map[string][]byte{"/x": []byte("x")})
	cfg := config(t)
	cfg.Tries, cfg.Capacity = 1, 10
	c := open(t, cfg)
	s.change(func() { s.files["/big"] = noise(100) })
	for path, missing := range map[string]bool{
		s.URL + "/none": true, "/no/such/file": true, s.URL + "/big": false, "http://127.0.0.1:1/x": false, "ftp://h/x": false, "http://10.9.8.7/": false,
	} {
		_, err := c.Fetch(deadline(t), Request{Tenant: "t1", Path: path})
		require.Error(t, err)
		require.Equal(t, missing, sources.Missing(err), "%v", err)
	}
}

// The client must not accept compressed responses: it would store other contents than the file's.
func TestTheHub_nothingIsUnpacked(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("rows"))
	require.NoError(t, z.Close())
	h := newFakeHub(t)
	h.repos["datasets/acme/rows"] = &hubRepo{commit: "abc", files: map[string]string{"rows.jsonl.gz": packed.String()}}
	require.Equal(t, packed.String(), contents(t, h.cache(t).get(t, "t1", "hf://acme/rows", "a"), "rows.jsonl.gz"))
}
