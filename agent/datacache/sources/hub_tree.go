package sources

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"github.com/mindcoordinator/mind/reach"
)

// hubFile is a file in the hub's list of a repository, or an entry of a tree.
type hubFile struct {
	Name string `json:"rfilename"`
	Path string `json:"path"` // of an entry, which may be a directory
	Type string `json:"type"`
	Size *int64 `json:"size"`
	LFS  *struct {
		SHA256 string `json:"sha256"`
		OID    string `json:"oid"` // the same, of an entry
		Size   int64  `json:"size"`
	} `json:"lfs"`
}

// hubListed is the number of files from which on the list in a repository's answer is not trusted: the hub truncates it
// at some thousands of files and does not indicate that.
const hubListed = 1000

// hubTree lists all files of a commit, page by page.
func (r *Resolver) hubTree(ctx context.Context, get webFile, base *url.URL, p hubPath, sha string) ([]hubFile, error) {
	page := get
	at := base.JoinPath("api", p.kind, p.repo, "tree", sha)
	at.RawQuery = url.Values{"recursive": {"true"}, "limit": {strconv.Itoa(hubListed)}}.Encode()
	page.url = at.String()
	var all []hubFile
	for {
		var entries []hubFile
		next, err := page.getPage(ctx, maxListing, &entries)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type == "file" {
				e.Name = e.Path
				all = append(all, e)
			}
		}
		if next == "" || len(all) > maxFiles { // more files are refused
			return all, nil
		}
		to, err := at.Parse(next)
		if err != nil || reach.HostPort(to) != reach.HostPort(base) || to.Scheme != base.Scheme || to.String() == page.url {
			return nil, Faultf("the Hugging Face hub sent an invalid link to the next page of its list")
		}
		page.url = to.String()
	}
}

var nextLink = regexp.MustCompile(`<([^>]*)>\s*;\s*rel="next"`)

// getPage reads one page of an answer and the link to the next.
func (w *webFile) getPage(ctx context.Context, limit int64, into any) (next string, err error) {
	request, err := w.request(ctx, http.MethodGet)
	if err != nil {
		return "", err
	}
	response, err := w.from.reach.Do(request)
	if err != nil {
		return "", w.unreachable(err)
	}
	defer response.Body.Close()
	if err := w.status(response); err != nil {
		return "", err
	}
	if m := nextLink.FindStringSubmatch(response.Header.Get("Link")); m != nil {
		next = m[1]
	}
	return next, decodeBounded(response.Body, limit, w.service, into)
}
