package admission

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/api/model"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

// checkModel refuses a model that no node could ever have.
func checkModel(m *v1.BaseModel) error {
	const field = "training_config.base_model.model_id"
	ref, err := model.OfTraining(m)
	if err != nil {
		return &call.Invalid{Field: field, Message: err.Error()}
	}
	if ref.Source == "" {
		return nil // the program resolves it
	}
	return CheckSource(field, ref.Source)
}

// checkModelURI refuses a model of an evaluation that no node could ever have.
func checkModelURI(uri string) error {
	if uri == "" {
		return nil
	}
	if err := checkURI("model_uri", uri); err != nil {
		return err
	}
	ref, err := model.OfURI(uri)
	if err != nil {
		return &call.Invalid{Field: "model_uri", Message: err.Error()}
	}
	return CheckSource("model_uri", ref.Source)
}

// Limits of data sources.
const (
	maxSources   = 1000
	maxSourceURI = 8 << 10
	maxURI       = 4096
)

// schemes are the schemes of URIs that agents can fetch.
var schemes = []string{"file", "http", "https", "s3", "hf", "scaidrive", "scaiatlas"}

// CheckSource refuses a path that no node could ever fetch.
func CheckSource(field, text string) error {
	scheme, rest, found := strings.Cut(text, "://")
	switch {
	case text == "":
		return call.Bad(field, "is required")
	case len(text) > maxSourceURI:
		return call.Bad(field, "is longer than %d bytes", maxSourceURI)
	case strings.ContainsRune(text, 0):
		return call.Bad(field, "must not contain a NUL character")
	case !found && !path.IsAbs(text):
		return call.Bad(field, "%q is neither an absolute path on the nodes nor a URL such as hf://datasets/OWNER/NAME, s3://BUCKET/KEY, https://HOST/PATH or scaidrive://SHARE/PATH", text)
	case !found:
		return nil
	case !slices.Contains(schemes, scheme):
		return call.Bad(field, "%s:// is not supported: use %s, or an absolute path on the nodes", scheme, strings.Join(schemes, ", "))
	case rest == "":
		return call.Bad(field, "%q names nothing", text)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return call.Bad(field, "is not a URL")
	case u.User != nil:
		return call.Bad(field, "contains a user name or password, which everybody who sees the job could read: remove it")
	}
	return nil
}

// checkURI accepts an absolute path, or a URI that nodes can resolve.
func checkURI(field, uri string) error {
	if uri == "" {
		return nil
	}
	if len(uri) > maxURI || strings.ContainsFunc(uri, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return call.Bad(field, "must have at most %d bytes and no control characters", maxURI)
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	switch {
	case path.IsAbs(uri):
	case !ok:
		return call.Bad(field, "%.64q is not a URI: give an absolute path, or a URI such as hf://organisation/name or scaidrive://tenant/path", uri)
	case !slices.Contains(schemes, scheme):
		return call.Bad(field, "%.64q has an unknown scheme: the schemes are %s", uri, strings.Join(schemes, ", "))
	case rest == "":
		return call.Bad(field, "%.64q names nothing", uri)
	case scheme == "file" && !path.IsAbs(rest):
		return call.Bad(field, "%.64q must be file:// and an absolute path", uri)
	}
	return nil
}
