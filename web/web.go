// Package web serves the console, the pages of Mind for browsers.
//
// The pages are built from src into dist (`make web`), and dist is committed and embedded, so that building Mind needs Go
// alone. A test compares dist with the sources that it was made from.
//
// Guarantees: no answer lets a page load, run or frame anything of another origin, nor run a script or style that is not a
// file of dist. Nothing here needs a credential or reads one: what a user may see is decided where the pages ask for it.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// Prefix is where the console is served.
const Prefix = "/console/"

//go:embed dist
var dist embed.FS

// policy allows what the pages do. Styles are set by scripts through the object model, which needs no permission. The
// policy "solid" makes the templates of the pages, which are constants of the build.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types solid"

var headers = map[string]string{
	"Content-Security-Policy":      policy,
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
}

// file is a file of the console as it is sent.
type file struct {
	mime    string
	plain   []byte
	gzipped []byte // nil: it would not be smaller
}

// console is dist, ready to be sent.
type console struct {
	page   file
	hash   string          // of everything in dist
	assets map[string]file // by name
}

// read reads dist once, at the first request.
var read = sync.OnceValue(func() *console {
	hash := sha256.New()
	names, err := fs.Glob(dist, "dist/a/*")
	must(err)
	c := &console{assets: map[string]file{}}
	for _, name := range names { // in order
		text := content(name)
		fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text)
		c.assets[path.Base(name)] = newFile(name, text)
	}
	page := content("dist/index.html")
	hash.Write(page)
	c.hash = hex.EncodeToString(hash.Sum(nil))[:16]
	c.page = newFile("index.html", bytes.ReplaceAll(page, []byte(`"./a/`), []byte(`"`+Prefix+"a/"+c.hash+"/")))
	return c
})

func content(name string) []byte {
	text, err := dist.ReadFile(name)
	must(err)
	return text
}

// must panics on an error of what is embedded: the program was built wrong.
func must(err error) {
	if err != nil {
		panic("web: " + err.Error())
	}
}

func newFile(name string, text []byte) file {
	f := file{mime: mimeOf(name), plain: text}
	var small bytes.Buffer
	w, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	must(err)
	_, err = w.Write(text)
	must(err)
	must(w.Close())
	if small.Len() < len(text)*9/10 {
		f.gzipped = small.Bytes()
	}
	return f
}

// mimeOf does not ask the machine, whose table may say something else.
func mimeOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".woff2":
		return "font/woff2"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// Handler serves everything below Prefix: files of dist below a/HASH/, and the one page at every other path, because the
// page finds out itself what it shows there.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the console takes GET only", http.StatusMethodNotAllowed)
			return
		}
		c := read()
		asset, below := strings.CutPrefix(r.URL.Path, Prefix+"a/")
		if !below {
			w.Header().Set("Cache-Control", "no-cache")
			c.page.serve(w, r, `W/"`+c.hash+`"`)
			return
		}
		hash, name, _ := strings.Cut(asset, "/")
		f, known := c.assets[name]
		if !known || hash != c.hash {
			// Another version's page asks: it loads itself again.
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "this gateway has another version of the console: load the page again", http.StatusNotFound)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		f.serve(w, r, `W/"`+c.hash+"-"+name+`"`)
	})
}

func (f file) serve(w http.ResponseWriter, r *http.Request, tag string) {
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.mime)
	body := f.plain
	if f.gzipped != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.gzipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the caller is gone
	}
}

// Redirect sends browsers from the address of the gateway to the console, and answers whether it did: programs, which do
// not ask for a page, are told that there is none.
func Redirect(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != strings.TrimSuffix(Prefix, "/") && (r.URL.Path != "/" || !strings.Contains(r.Header.Get("Accept"), "text/html")) {
		return false
	}
	http.Redirect(w, r, Prefix, http.StatusFound)
	return true
}
