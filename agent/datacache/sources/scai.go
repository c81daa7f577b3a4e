package sources

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/mindcoordinator/mind/reach"
)

// scaiService is ScaiDrive or ScaiAtlas, with the caller's token.
type scaiService struct {
	name, setting string
	service       Service
	token         string
}

// scai resolves a file, or everything below a path that ends with a slash. The API of these services is not published,
// so Mind defines the one that it uses: BASE/SHARE/PATH is the file; a path that ends with a slash returns a JSON
// object with the list of files.
func (r *Resolver) scai(ctx context.Context, u *url.URL, s scaiService) (*Source, error) {
	if s.service.URL == "" {
		return nil, Faultf("the nodes have no URL for %s: the operator can set %s of the agents", s.name, s.setting)
	}
	if u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, Faultf("write %s://SHARE/PATH", u.Scheme)
	}
	base, err := reach.Base(s.service.URL)
	if err != nil {
		return nil, err
	}
	get := webFile{from: r, service: s.name, token: cmp.Or(s.token, s.service.Token)}
	if get.token == "" {
		return nil, missingf("the job has no %s token: submit it through a gateway that exchanges tokens, signed in as a user who may read it; retry a job that ended before it started, because its token was deleted", s.name)
	}
	get.refused = "its token may have expired while the job waited, or may not read it: retry the job, signed in as a user who may read it"
	at := func(parts ...string) string {
		escaped := []string{url.PathEscape(u.Host)}
		for _, p := range parts {
			for part := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
				if part != "" {
					escaped = append(escaped, url.PathEscape(part))
				}
			}
		}
		return base.JoinPath(escaped...).String()
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == ".." || part == "." {
			return nil, Faultf("its path contains %q", part)
		}
	}
	if !strings.HasSuffix(u.Path, "/") && u.Path != "" {
		page := get
		page.url = at(u.Path)
		file, version, err := page.stat(ctx, u.Path[strings.LastIndexByte(u.Path, '/')+1:])
		if err != nil {
			return nil, err
		}
		return &Source{Files: []File{file}, Version: version}, nil
	}
	list := get
	list.url = at(u.Path) + "/"
	var listing struct {
		Files []struct {
			Path   string `json:"path"`
			Size   *int64 `json:"size"`
			ETag   string `json:"etag"`
			SHA256 string `json:"sha256"`
		} `json:"files"`
	}
	if err := list.getJSON(ctx, maxListing, &listing); err != nil {
		return nil, err
	}
	out := &Source{}
	var versions strings.Builder
	known := true
	for _, f := range listing.Files {
		page := get
		page.url, page.etag = at(u.Path, f.Path), f.ETag
		file := page.file(f.Path, -1)
		if f.Size != nil {
			file.Size = *f.Size
		}
		file.SHA256 = f.SHA256
		out.Files = append(out.Files, file)
		known = known && f.ETag+f.SHA256 != ""
		versions.WriteString(f.Path + "\x00" + f.ETag + "\x00" + f.SHA256 + "\n")
	}
	if known {
		out.Version = digestOf(versions.String())
	}
	return out, nil
}
