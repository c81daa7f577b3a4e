package sources

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// web resolves a file at a URL.
func (r *Resolver) web(ctx context.Context, u *url.URL) (*Source, error) {
	if u.Host == "" {
		return nil, Faultf("it has no host")
	}
	name := path.Base(u.Path)
	if u.Path == "" || strings.HasSuffix(u.Path, "/") {
		name = "data"
	}
	page := &webFile{from: r, url: u.String(), service: u.Hostname()}
	file, version, err := page.stat(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Source{Files: []File{file}, Version: version}, nil
}

// webFile is a file that is read over HTTP.
type webFile struct {
	from *Resolver
	url  string
	// token is sent as a bearer token to this URL, but not to its redirects; empty: none.
	token string
	// service is its name in messages; refused says what to do when the token is refused.
	service, refused string
	// explain returns a better explanation of a refusal than its code gives. It may be nil or return nil.
	explain func(*http.Response) error

	etag, modified string
}

func (w *webFile) request(ctx context.Context, method string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, w.url, nil)
	if err != nil {
		return nil, Faultf("it is not a URL")
	}
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("User-Agent", "mind-agent")
	if w.token != "" {
		request.Header.Set("Authorization", "Bearer "+w.token)
	}
	return request, nil
}

// stat asks for the size and version. For servers without HEAD it asks for the first byte.
func (w *webFile) stat(ctx context.Context, name string) (file File, version string, err error) {
	request, err := w.request(ctx, http.MethodHead)
	if err != nil {
		return file, "", err
	}
	response, err := w.from.reach.Do(request)
	if err != nil {
		return file, "", w.unreachable(err)
	}
	_ = response.Body.Close()
	size := response.ContentLength
	if code := response.StatusCode; code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented || code == http.StatusForbidden {
		if request, err = w.request(ctx, http.MethodGet); err != nil {
			return file, "", err
		}
		request.Header.Set("Range", "bytes=0-0")
		if response, err = w.from.reach.Do(request); err != nil {
			return file, "", w.unreachable(err)
		}
		_ = response.Body.Close()
		if size = response.ContentLength; response.StatusCode == http.StatusPartialContent {
			if _, size, err = contentRange(response); err != nil {
				size = -1
			}
		}
	}
	if err := w.status(response); err != nil {
		return file, "", err
	}
	w.etag, w.modified = response.Header.Get("ETag"), response.Header.Get("Last-Modified")
	version = w.etag
	if version == "" && w.modified != "" {
		version = w.modified + " " + strconv.FormatInt(size, 10)
	}
	return w.file(name, size), version, nil
}

func (w *webFile) file(name string, size int64) File {
	return File{Name: name, Size: size, Strong: w.ifRange() != "", Open: w.open}
}

// ifRange returns the validator that proves that the rest belongs to the same file.
func (w *webFile) ifRange() string {
	if w.etag != "" && !strings.HasPrefix(w.etag, "W/") {
		return w.etag
	}
	if w.etag == "" {
		return w.modified
	}
	return ""
}

// open reads the file from an offset, or from its start if the server does not support ranges.
func (w *webFile) open(ctx context.Context, offset int64) (io.ReadCloser, int64, error) {
	request, err := w.request(ctx, http.MethodGet)
	if err != nil {
		return nil, 0, err
	}
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		if proof := w.ifRange(); proof != "" {
			request.Header.Set("If-Range", proof)
		}
	}
	response, err := w.from.reach.Do(request)
	if err != nil {
		return nil, 0, w.unreachable(err)
	}
	if response.StatusCode == http.StatusRequestedRangeNotSatisfiable && offset > 0 {
		// Everything was there except the final length; a server also answers this if the file has become shorter.
		_ = response.Body.Close()
		request.Header.Del("Range")
		request.Header.Del("If-Range")
		if response, err = w.from.reach.Do(request); err != nil {
			return nil, 0, w.unreachable(err)
		}
	}
	if err := w.status(response); err != nil {
		_ = response.Body.Close()
		return nil, 0, err
	}
	if etag := response.Header.Get("ETag"); etag != "" && w.etag != "" && etag != w.etag {
		_ = response.Body.Close()
		return nil, 0, ErrChanged
	}
	if modified := response.Header.Get("Last-Modified"); w.etag == "" && w.modified != "" && modified != "" && modified != w.modified {
		_ = response.Body.Close()
		return nil, 0, ErrChanged
	}
	if response.StatusCode != http.StatusPartialContent {
		return response.Body, 0, nil
	}
	from, _, err := contentRange(response)
	if err != nil {
		_ = response.Body.Close()
		return nil, 0, err
	}
	return response.Body, from, nil
}

func contentRange(response *http.Response) (from, size int64, err error) {
	text, ok := strings.CutPrefix(response.Header.Get("Content-Range"), "bytes ")
	span, total, ok2 := strings.Cut(text, "/")
	first, _, ok3 := strings.Cut(span, "-")
	from, err = strconv.ParseInt(first, 10, 64)
	if err != nil || !ok || !ok2 || !ok3 {
		return 0, 0, fmt.Errorf("the server does not say which range it sends")
	}
	if size, err = strconv.ParseInt(total, 10, 64); err != nil {
		size = -1
	}
	return from, size, nil
}

func (w *webFile) unreachable(err error) error {
	return fmt.Errorf("node %s cannot fetch from %s: %w", w.from.cfg.Node, w.service, bare(err))
}

// status explains an error answer. An error that the server may recover from is not a fault.
func (w *webFile) status(response *http.Response) error {
	if w.explain != nil && response.StatusCode >= 400 {
		if err := w.explain(response); err != nil {
			return err
		}
	}
	switch code := response.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusNotFound || code == http.StatusGone:
		return missingf("%s has no such file (%d): check the path", w.service, code)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		hint := w.refused
		if hint == "" {
			hint = "make it readable for the nodes, or move it to where they may read"
		}
		return missingf("%s denies access (%d): %s", w.service, code, hint)
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500:
		return fmt.Errorf("%s answers %d %s", w.service, code, http.StatusText(code))
	default:
		return Faultf("%s answers %d %s: check the path", w.service, code, http.StatusText(code))
	}
}

// getJSON reads a small JSON answer of a service.
func (w *webFile) getJSON(ctx context.Context, limit int64, into any) error {
	body, _, err := w.open(ctx, 0)
	if err != nil {
		return err
	}
	defer body.Close()
	return decodeBounded(body, limit, w.service, into)
}
