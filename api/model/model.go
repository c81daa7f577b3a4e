// Package model resolves the model that a job trains or an evaluation scores. The coordinators use it to refuse models that
// cannot exist, and the agents to fetch them, so both resolve a name in the same way.
//
// A model is given as an absolute path on the nodes, the URL of a data source, or a bare name such as
// meta-llama/Llama-3-8B. The meaning of a bare name was not published beyond "HuggingFace ref, ScaiAtlas id, or anything
// the coordinator resolves"; the rest is our choice.
package model

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Ref is the location of a model.
type Ref struct {
	// Name is the model's name in the request.
	Name string
	// Source is the data source to fetch, or the path on the node; empty: the program resolves the name.
	Source string
	// Default says that Source is on the Hugging Face hub only by default, because the request names no source. Nodes
	// with a configured hub fetch the model from there; on other nodes the program resolves the name.
	Default bool
	// AllFormats says that the program does not use weights in the format safetensors, so all formats of the repository
	// are fetched.
	AllFormats bool
}

const hubScheme = "hf://"

// sources maps the values of base_model.source that Mind knows to their kinds. With any other value the program
// resolves the model.
var sources = map[string]string{
	"huggingface": "hub", "hf": "hub", "hub": "hub",
	"scaiatlas": "scaiatlas", "atlas": "scaiatlas",
	"scaidrive": "scaidrive", "drive": "scaidrive",
	"local": "file", "file": "file", "path": "file",
	"s3": "url", "http": "url", "https": "url", "url": "url", "uri": "url",
}

// hubID matches names of repositories on the hub. Names of old repositories have no owner.
var hubID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?$`)

// OfTraining finds the model of a training. Its error is a sentence that says what to write instead.
func OfTraining(m *v1.BaseModel) (Ref, error) {
	ref := Ref{Name: m.GetModelId(), AllFormats: otherFormats(m.GetModelKwargs())}
	given := strings.ToLower(strings.TrimSpace(m.GetSource()))
	kind, known := sources[given]
	switch {
	case given != "" && !known, ref.Name == "":
		return ref, nil
	case strings.Contains(ref.Name, "://"):
		return ofURL(ref, m.GetRevision())
	case path.IsAbs(ref.Name):
		ref.Source = ref.Name
		return ref, nil
	}
	switch kind {
	case "file":
		return ref, fmt.Errorf("%.64q must be an absolute path on the nodes, because base_model.source is %q", ref.Name, m.GetSource())
	case "url":
		return ref, fmt.Errorf("%.64q must be a URL, such as s3://BUCKET/PREFIX/, because base_model.source is %q", ref.Name, m.GetSource())
	case "scaiatlas", "scaidrive":
		var err error
		ref.Source, err = scaiSource(kind, ref.Name)
		return ref, err
	}
	if !hubID.MatchString(ref.Name) || strings.Contains(ref.Name, "..") {
		if kind == "hub" {
			return ref, fmt.Errorf("%.64q is not a name of a repository of the Hugging Face hub: write OWNER/NAME", ref.Name)
		}
		return ref, nil
	}
	ref.Default = kind == ""
	ref.Source = hubScheme + "models/" + ref.Name + atRevision(m.GetRevision())
	return ref, nil
}

// otherFormats reports whether the arguments for from_pretrained ask for weights other than safetensors.
func otherFormats(kwargs map[string]string) bool {
	for name, asks := range map[string]bool{"use_safetensors": false, "from_tf": true, "from_flax": true} {
		if is, err := strconv.ParseBool(kwargs[name]); err == nil && is == asks {
			return true
		}
	}
	return kwargs["gguf_file"] != ""
}

// OfURI finds the model of an evaluation from its model_uri.
func OfURI(uri string) (Ref, error) { return ofURL(Ref{Name: uri}, "") }

// ofURL completes the URL of a model. A URL of the hub without a kind names a model.
func ofURL(ref Ref, revision string) (Ref, error) {
	ref.Source = ref.Name
	rest, hub := strings.CutPrefix(ref.Name, hubScheme)
	if !hub {
		return ref, nil
	}
	kind := "models"
	for _, k := range []string{"models", "datasets"} {
		if r, ok := strings.CutPrefix(rest, k+"/"); ok {
			kind, rest = k, r
			break
		}
	}
	owner, rest, _ := strings.Cut(rest, "/")
	name, within, deep := strings.Cut(rest, "/")
	repository := owner
	if name != "" {
		repository += "/" + name
	}
	repository, at, pinned := strings.Cut(repository, "@")
	if pinned {
		have, err := url.PathUnescape(at)
		if err != nil || have == "" || revision != "" && have != revision {
			return ref, fmt.Errorf("%.200q and base_model.revision %.64q are different revisions: give only one of them", ref.Name, revision)
		}
		revision = have
	}
	ref.Source = hubScheme + kind + "/" + repository + atRevision(revision)
	if deep && within != "" {
		ref.Source += "/" + within
	}
	return ref, nil
}

// atRevision adds a revision in the syntax of data sources.
func atRevision(revision string) string {
	if revision == "" {
		return ""
	}
	return "@" + url.PathEscape(revision)
}

// scaiSource returns the data source for all files that a Scai service stores under a name.
func scaiSource(scheme, name string) (string, error) {
	var parts []string
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "?#@:\\") {
			return "", fmt.Errorf("%.64q is not a name in %s: write NAME or SHARE/PATH", name, scheme)
		}
		parts = append(parts, part)
	}
	return scheme + "://" + strings.Join(parts, "/") + "/", nil
}
