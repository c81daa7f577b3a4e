package web

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func get(t *testing.T, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(text)
}

// dist must have been made from the sources beside it; this needs no Node.
func TestDist_isMadeFromTheSources(t *testing.T) {
	files := []string{"index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"}
	require.NoError(t, filepath.WalkDir("src", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(path, ".test.ts") {
			files = append(files, filepath.ToSlash(path))
		}
		return err
	}))
	slices.Sort(files)
	var now []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		sum := sha256.Sum256(text)
		now = append(now, hex.EncodeToString(sum[:])+"  "+name)
	}
	then, err := os.ReadFile("dist/SOURCES.sha256")
	require.NoError(t, err)
	require.Equal(t, strings.Split(strings.TrimSuffix(string(then), "\n"), "\n"), now, "web/dist is stale: run make web, and commit what it built")
}

// Fonts and libraries of others are given on with their conditions.
func TestDist_hasTheLicenses(t *testing.T) {
	text, err := dist.ReadFile("dist/LICENSES.txt")
	require.NoError(t, err)
	for _, want := range []string{"SIL OPEN FONT LICENSE", "solid-js", "uplot", "@codemirror/view", "style-mod", "MIT"} {
		require.Contains(t, string(text), want)
	}
}

// The first page, and all of them, must be quick to load over a slow network.
func TestDist_isSmall(t *testing.T) {
	const first, all, canvas, editor, plain = 80 << 10, 150 << 10, 60 << 10, 100 << 10, 1 << 20
	c := read()
	sent := func(f file) int {
		if f.gzipped != nil {
			return len(f.gzipped)
		}
		return len(f.plain)
	}
	size := sent(c.page)
	for _, m := range regexp.MustCompile(`(?:src|href)="`+Prefix+`a/[^/]+/([^"]+)"`).FindAllSubmatch(c.page.plain, -1) {
		f, ok := c.assets[string(m[1])]
		require.Truef(t, ok, "the page names %s", m[1])
		size += sent(f)
	}
	require.LessOrEqual(t, size, first, "bytes for the first page")
	sum, drawn, unpacked := sent(c.page), 0, len(c.page.plain)
	for name, f := range c.assets {
		if name == "canvas-code.js" {
			require.LessOrEqual(t, sent(f), editor, "bytes for the editor of expressions")
		} else if strings.HasPrefix(name, "canvas-") {
			drawn += sent(f)
		} else {
			sum += sent(f)
		}
		unpacked += len(f.plain)
	}
	require.LessOrEqual(t, sum, all, "bytes for all pages but the canvas of flows")
	require.NotZero(t, drawn)
	require.Contains(t, c.assets, "canvas-code.js", "the editor of expressions is loaded by itself")
	require.LessOrEqual(t, drawn, canvas, "bytes for the canvas of flows")
	require.LessOrEqual(t, unpacked, plain, "bytes that the console adds to the program")
	t.Logf("first page %d bytes, all %d, the canvas %d, unpacked %d", size, sum, drawn, unpacked)
}

// Every answer keeps pages from loading, running and being framed by anything else; the page needs nothing inline.
func TestHandler_headers(t *testing.T) {
	asset := Prefix + "a/" + read().hash + "/style.css"
	for _, path := range []string{Prefix, Prefix + "jobs/job_1", asset, Prefix + "a/old/style.css"} {
		h := get(t, path).Header
		for name, value := range headers {
			require.Equalf(t, value, h.Get(name), "%s of %s", name, path)
		}
	}
	for _, directive := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
		require.Contains(t, policy, directive)
	}
	require.NotContains(t, policy, "unsafe")
	page := string(read().page.plain)
	require.NotRegexp(t, `<style|style="|<script(?: [^>]*)?>[^<]| on[a-z]+="`, page, "the policy refuses what is inline")
	require.NotRegexp(t, `https?://`, page)
}

func TestHandler_serves(t *testing.T) {
	page := get(t, Prefix)
	require.Equal(t, 200, page.StatusCode)
	require.Equal(t, "no-cache", page.Header.Get("Cache-Control"))
	require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
	text := body(t, page)
	require.Equal(t, text, body(t, get(t, Prefix+"jobs/job_1/log")), "every path of a page is the one page")
	require.Equal(t, 304, get(t, Prefix, "If-None-Match", page.Header.Get("ETag")).StatusCode)

	script := regexp.MustCompile(`src="([^"]+\.js)"`).FindStringSubmatch(text)[1]
	asset := get(t, script, "Accept-Encoding", "gzip, br")
	require.Equal(t, 200, asset.StatusCode)
	require.Equal(t, "public, max-age=31536000, immutable", asset.Header.Get("Cache-Control"))
	require.Equal(t, "text/javascript; charset=utf-8", asset.Header.Get("Content-Type"))
	require.Equal(t, "gzip", asset.Header.Get("Content-Encoding"))
	unpacked, err := gzip.NewReader(asset.Body)
	require.NoError(t, err)
	plain, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	require.Equal(t, body(t, get(t, script)), string(plain))

	old := get(t, Prefix+"a/0123456789abcdef/index.js")
	require.Equal(t, 404, old.StatusCode, "another version's")
	require.Equal(t, "no-store", old.Header.Get("Cache-Control"))

	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, Prefix, nil))
	require.Equal(t, 405, w.Code)
}

func TestRedirect_browsersOnly(t *testing.T) {
	for _, test := range []struct {
		path, accept string
		want         bool
	}{
		{"/", "text/html,application/xhtml+xml", true},
		{"/", "*/*", false},
		{"/console", "*/*", true},
		{"/v1/x", "text/html", false},
	} {
		r := httptest.NewRequest(http.MethodGet, test.path, nil)
		r.Header.Set("Accept", test.accept)
		w := httptest.NewRecorder()
		require.Equal(t, test.want, Redirect(w, r), fmt.Sprint(test))
		if test.want {
			require.Equal(t, Prefix, w.Header().Get("Location"))
		}
	}
}

// Strings that users control must not become markup: only Solid's constant templates may, under a policy of their own.
func TestSources_writeNoMarkup(t *testing.T) {
	banned := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\(|new Function|style="|javascript:`)
	require.NoError(t, filepath.WalkDir("src", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".test.ts") || !strings.HasSuffix(path, ".ts") && !strings.HasSuffix(path, ".tsx") {
			return err
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Emptyf(t, banned.FindString(string(text)), "%s", path)
		require.LessOrEqualf(t, strings.Count(string(text), "\n"), 400, "%s is too long", path)
		return nil
	}))
}
