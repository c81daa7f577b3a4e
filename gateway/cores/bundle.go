package cores

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"

	"github.com/mindcoordinator/mind/api/methods"
	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/forms"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

const (
	// maxBundle bounds a bundle; published.
	maxBundle = 10 << 20
	// maxForm bounds the form around it.
	maxForm = maxBundle + 64<<10
	// bundleMagic begins binary bundles, the rest of which was never published.
	bundleMagic = "SCIR"
)

var parseBundleRoute = methods.Route{
	Method: http.MethodPost, Path: "/v1/modules/scaicore/cores/parse-bundle", Summary: "Read a program, and say what is in it", Code: http.StatusOK,
}

var bundleSchema = openapi.Object{
	"type": "object", "properties": openapi.Object{
		"source": openapi.Anything, "summary": openapi.Anything, "diagnostics": openapi.List(openapi.Anything),
	},
}

// parseBundle reads a program from a multipart form (field file), or from the body itself.
func parseBundle(x *rest.Request) error {
	raw, err := bundle(x)
	if err != nil {
		return err
	}
	if len(raw) >= len(bundleMagic) && string(raw[:len(bundleMagic)]) == bundleMagic {
		return badBundle("Failed to parse bundle: its binary form was never published; send the program as JSON")
	}
	if !json.Valid(raw) {
		return badBundle("File is neither a valid .scaicore-ir bundle nor JSON")
	}
	m, found := forms.Module(raw)
	if m == nil {
		says := found[0].Message
		if block := found[0].BlockID; block != "" {
			says = "block " + strconv.Quote(block) + ": " + says
		}
		return badBundle("Failed to parse bundle: " + says)
	}
	stored, err := m.Encode()
	if err != nil {
		return fmt.Errorf("writing a program: %w", err)
	}
	if found == nil {
		found = []check.Diagnostic{}
	}
	answer, err := json.Marshal(map[string]any{"source": json.RawMessage(stored), "summary": summary(m, stored), "diagnostics": found})
	if err != nil {
		return fmt.Errorf("describing a program: %w", err)
	}
	x.Data(func(b []byte) []byte { return append(b, answer...) })
	return nil
}

func badBundle(says string) error {
	return &rest.Problem{HTTP: http.StatusBadRequest, Code: "VALIDATION_ERROR", Message: says}
}

// summary says what is in a program.
func summary(m *ir.Module, stored []byte) map[string]any {
	flows, models := []string{}, []string{}
	for _, f := range m.Flows {
		flows = append(flows, f.Name)
	}
	for _, one := range m.Models {
		models = append(models, one.Role)
	}
	out := map[string]any{
		"name": m.Name, "version": m.Version, "schema_version": m.SchemaVersion, "flows": flows, "models": models,
		"has_triggers": len(m.Triggers) > 0, "has_plugins": len(m.Plugins) > 0, "size_bytes": len(stored),
	}
	if m.Identity != nil {
		out["identity"] = m.Identity
	}
	return out
}

// bundleTooLarge is the published answer.
func bundleTooLarge() error {
	return &rest.Problem{HTTP: http.StatusRequestEntityTooLarge, Code: "VALIDATION_ERROR", Message: "Bundle exceeds 10 MB limit"}
}

// bundle reads the file of the form, or the body.
func bundle(x *rest.Request) ([]byte, error) {
	body, err := x.Body()
	if err != nil {
		return nil, err
	}
	defer rest.Release(body)
	kind, options, _ := mime.ParseMediaType(x.R.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		if len(*body) > maxBundle {
			return nil, bundleTooLarge()
		}
		return unYAML(append([]byte(nil), *body...), sendsYAML(x))
	}
	form := multipart.NewReader(bytes.NewReader(*body), options["boundary"])
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, rest.InvalidBody([]wire.Fault{{Field: "file", Message: "is missing: send the program as the field file of a form"}})
		}
		if err != nil {
			return nil, badBundle("Failed to parse bundle: the form cannot be read: " + err.Error())
		}
		if part.FormName() != "file" {
			continue
		}
		raw, err := io.ReadAll(io.LimitReader(part, maxBundle+1))
		switch {
		case err != nil:
			return nil, badBundle("Failed to parse bundle: " + err.Error())
		case len(raw) > maxBundle:
			return nil, bundleTooLarge()
		}
		return unYAML(raw, isYAML(part.Header.Get("Content-Type")) || path.Ext(part.FileName()) == ".yaml" || path.Ext(part.FileName()) == ".yml")
	}
}

// unYAML is a file as JSON, if it is YAML.
func unYAML(raw []byte, yaml bool) ([]byte, error) {
	if !yaml {
		return raw, nil
	}
	raw, err := compile.JSON(raw)
	if err != nil {
		return nil, badBundle("Failed to parse bundle: " + err.Error())
	}
	return raw, nil
}
