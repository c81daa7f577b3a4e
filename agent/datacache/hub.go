package datacache

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strings"
)

// hubPath is hf://[datasets/|models/]OWNER/NAME[@REVISION][/PATH]: without a kind it is a data set, as this is about data.
type hubPath struct{ kind, repo, revision, within string }

func parseHub(text string) (hubPath, error) {
	const form = "write hf://datasets/OWNER/NAME, with @REVISION and /PATH behind it as you like, or hf://models/OWNER/NAME"
	p := hubPath{kind: "datasets", revision: "main"}
	for _, kind := range []string{"datasets", "models"} {
		if rest, ok := strings.CutPrefix(text, kind+"/"); ok {
			p.kind, text = kind, rest
			break
		}
	}
	if text == "" || strings.ContainsAny(text, "?#\\") {
		return p, faultf("it is no path on the Hugging Face hub: %s", form)
	}
	owner, rest, _ := strings.Cut(strings.TrimRight(text, "/"), "/")
	name, within, _ := strings.Cut(rest, "/")
	name, revision, given := strings.Cut(name, "@")
	if owner == "" || name == "" || given && revision == "" || strings.Contains(owner, "@") || owner == ".." || name == ".." {
		return p, faultf("it is no path on the Hugging Face hub: %s", form)
	}
	// A branch may have a slash in its name, which is written %2F.
	if given {
		unescaped, err := url.PathUnescape(revision)
		if err != nil {
			return p, faultf("it is no path on the Hugging Face hub: %s", form)
		}
		p.revision = unescaped
	}
	p.repo, p.within = owner+"/"+name, within
	return p, nil
}

// hub is a repository of the Hugging Face hub, or a part of it, at one commit.
func (c *Cache) hub(ctx context.Context, text string, credentials Credentials) (*source, error) {
	p, err := parseHub(text)
	if err != nil {
		return nil, err
	}
	base, err := baseURL(c.cfg.Hub.URL)
	if err != nil {
		return nil, err
	}
	get := webFile{
		cache: c, service: "the Hugging Face hub", token: cmp.Or(credentials.HubToken, c.cfg.Hub.Token),
		refused: "if it is gated or private, set HF_TOKEN in training_config.environment to a token that may read it, or data_hub_token of the agents; else check the name",
	}
	info := get
	info.url = base.JoinPath("api", p.kind, p.repo, "revision", url.PathEscape(p.revision)).String() + "?blobs=true"
	var repo struct {
		SHA   string `json:"sha"`
		Files []struct {
			Name string `json:"rfilename"`
			Size *int64 `json:"size"`
			LFS  *struct {
				SHA256 string `json:"sha256"`
				Size   int64  `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	if err := info.getJSON(ctx, maxListing, &repo); err != nil {
		return nil, err
	}
	if repo.SHA == "" {
		return nil, faultf("the Hugging Face hub names no commit for it")
	}
	s := &source{version: repo.SHA}
	for _, f := range repo.Files {
		if p.within != "" && f.Name != p.within && !strings.HasPrefix(f.Name, p.within+"/") {
			continue
		}
		// Of a commit the files never change: what was begun can always be gone on with.
		page := get
		page.url = hubFile(base, p, repo.SHA, f.Name)
		file := remoteFile{name: f.Name, size: -1, strong: true, open: page.open}
		switch {
		case f.LFS != nil:
			file.size, file.sha256 = f.LFS.Size, f.LFS.SHA256
		case f.Size != nil:
			file.size = *f.Size
		}
		if f.Name == p.within { // a single file lies at the top
			file.name = f.Name[strings.LastIndexByte(f.Name, '/')+1:]
		} else if p.within != "" {
			file.name = strings.TrimPrefix(f.Name, p.within+"/")
		}
		s.files = append(s.files, file)
	}
	return s, nil
}

func hubFile(base *url.URL, p hubPath, sha, name string) string {
	parts := []string{p.repo, "resolve", sha}
	if p.kind != "models" {
		parts = append([]string{p.kind}, parts...)
	}
	for part := range strings.SplitSeq(name, "/") {
		parts = append(parts, url.PathEscape(part))
	}
	return base.JoinPath(parts...).String()
}

// maxListing bounds what a service says of a source.
const maxListing = 64 << 20

func decodeBounded(body io.Reader, limit int64, service string, into any) error {
	text, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return err
	case int64(len(text)) > limit:
		return faultf("%s lists more than %d bytes: name a part of it", service, limit)
	case json.Unmarshal(text, into) != nil:
		return faultf("%s does not answer as it should: check its URL in the configuration of the agents", service)
	}
	return nil
}
