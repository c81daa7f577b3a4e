package sources

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/mindcoordinator/mind/reach"
)

// hubPath matches hf://[datasets/|models/]OWNER/NAME[@REVISION][/PATH]; without a kind it is a data set. After a kind, NAME
// alone is an old repository without an owner; nothing may follow it.
type hubPath struct{ kind, repo, revision, within string }

func parseHub(text string) (hubPath, error) {
	const form = "write hf://datasets/OWNER/NAME or hf://models/OWNER/NAME, optionally followed by @REVISION and /PATH"
	p, given := hubPath{kind: "datasets", revision: "main"}, false
	for _, kind := range []string{"datasets", "models"} {
		if rest, ok := strings.CutPrefix(text, kind+"/"); ok {
			p.kind, text, given = kind, rest, true
			break
		}
	}
	if text == "" || strings.ContainsAny(text, "?#\\") {
		return p, Faultf("it is not a path on the Hugging Face hub: %s", form)
	}
	owner, rest, _ := strings.Cut(strings.TrimRight(text, "/"), "/")
	name, within, _ := strings.Cut(rest, "/")
	if name == "" && given {
		owner, name = "", owner
	}
	name, revision, pinned := strings.Cut(name, "@")
	if name == "" || owner == "" && !given || pinned && revision == "" || strings.Contains(owner, "@") || owner == ".." || name == ".." {
		return p, Faultf("it is not a path on the Hugging Face hub: %s", form)
	}
	// A branch may have a slash in its name, which is written %2F.
	if pinned {
		unescaped, err := url.PathUnescape(revision)
		if err != nil {
			return p, Faultf("it is not a path on the Hugging Face hub: %s", form)
		}
		p.revision = unescaped
	}
	p.repo, p.within = strings.TrimPrefix(owner+"/"+name, "/"), within
	return p, nil
}

// hub resolves a repository of the Hugging Face hub at one commit, or a part of it.
func (r *Resolver) hub(ctx context.Context, text string, credentials Credentials) (*Source, error) {
	p, err := parseHub(text)
	if err != nil {
		return nil, err
	}
	base, err := reach.Base(r.cfg.Hub.URL)
	if err != nil {
		return nil, err
	}
	get := webFile{
		from: r, service: "the Hugging Face hub", token: cmp.Or(credentials.HubToken, r.cfg.Hub.Token),
		refused: "if it is gated or private, set HF_TOKEN in training_config.environment to a token that may read it, or data_hub_token of the agents; else check the name",
		explain: hubSays(p),
	}
	info := get
	info.url = base.JoinPath("api", p.kind, p.repo, "revision", url.PathEscape(p.revision)).String() + "?blobs=true"
	var repo struct {
		SHA string `json:"sha"`
		// Gated is false, or names how access is granted. The list of files is public in any case.
		Gated any       `json:"gated"`
		Files []hubFile `json:"siblings"`
	}
	if err := info.getJSON(ctx, maxListing, &repo); err != nil {
		return nil, err
	}
	if repo.SHA == "" {
		return nil, Faultf("the Hugging Face hub names no commit for it")
	}
	if len(repo.Files) >= hubListed {
		if repo.Files, err = r.hubTree(ctx, get, base, p, repo.SHA); err != nil {
			return nil, err
		}
	}
	s := &Source{Version: repo.SHA, repository: true}
	for _, f := range repo.Files {
		if p.within != "" && f.Name != p.within && !strings.HasPrefix(f.Name, p.within+"/") {
			continue
		}
		// The files of a commit never change, so a transfer can always be resumed.
		page := get
		page.url = hubFileURL(base, p, repo.SHA, f.Name)
		file := File{Name: f.Name, Size: -1, Strong: true, Open: page.open}
		switch {
		case f.LFS != nil:
			file.Size, file.SHA256 = f.LFS.Size, cmp.Or(f.LFS.SHA256, f.LFS.OID)
		case f.Size != nil:
			file.Size = *f.Size
		}
		if f.Name == p.within { // a single file lies at the top
			file.Name = f.Name[strings.LastIndexByte(f.Name, '/')+1:]
		} else if p.within != "" {
			file.Name = strings.TrimPrefix(f.Name, p.within+"/")
		}
		s.Files = append(s.Files, file)
		if gated := repo.Gated != nil && repo.Gated != any(false); gated && len(s.Files) == 1 {
			// Without access, no file can be fetched: report it now, not when the transfer starts.
			first := page
			if _, _, err := first.stat(ctx, file.Name); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// hubSays explains a refusal of the hub. For a private repository the hub answers as for a missing one: with 401.
func hubSays(p hubPath) func(response *http.Response) error {
	const access = "set HF_TOKEN in training_config.environment to a token that may read it, or data_hub_token of the agents"
	return func(response *http.Response) error {
		switch response.Header.Get("X-Error-Code") {
		case "RepoNotFound":
			return missingf("the Hugging Face hub has no repository %s among its %s, or keeps it private: check the name; if it is private, %s", p.repo, p.kind, access)
		case "RevisionNotFound":
			return missingf("%s has no revision %q on the Hugging Face hub: give a branch, a tag or a commit", p.repo, p.revision)
		case "EntryNotFound":
			return missingf("%s lists a file that the Hugging Face hub does not have: try again, or choose another revision", p.repo)
		case "GatedRepo":
			return missingf("%s is gated on the Hugging Face hub, and you have no access: request access on its page there, then %s", p.repo, access)
		}
		if message := response.Header.Get("X-Error-Message"); strings.Contains(message, "is disabled") {
			return missingf("the Hugging Face hub has disabled %s: choose another repository", p.repo)
		}
		return nil
	}
}

func hubFileURL(base *url.URL, p hubPath, sha, name string) string {
	parts := []string{p.repo, "resolve", sha}
	if p.kind != "models" {
		parts = append([]string{p.kind}, parts...)
	}
	for part := range strings.SplitSeq(name, "/") {
		parts = append(parts, url.PathEscape(part))
	}
	return base.JoinPath(parts...).String()
}

// maxListing limits the size of a service's answer about a source.
const maxListing = 64 << 20

func decodeBounded(body io.Reader, limit int64, service string, into any) error {
	text, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return err
	case int64(len(text)) > limit:
		return Faultf("the list of %s is longer than %d bytes: choose a part of it", service, limit)
	case json.Unmarshal(text, into) != nil:
		return Faultf("%s sent an invalid answer: check its URL in the configuration of the agents", service)
	}
	return nil
}
