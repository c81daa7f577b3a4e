package gateway

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
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/forms"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Parameters of lists of ScaiCore.
var (
	coreLimit  = number("limit", "default 50", 1, 500)
	coreCursor = text("cursor", "next_cursor of the previous page")
	ofCore     = text("core_id", "only those of this Core: its id or its slug")

	executionStatuses  = []string{"running", "waiting", "paused", "completed", "failed", "canceled"}
	checkpointStatuses = []string{"pending", "resolved", "expired", "cancelled", "all"}
)

// invokeCore starts an execution. The answer is 200 if it is over, otherwise 202. Prefer: respond-async does not wait for its end.
func invokeCore(x *httpRequest) error {
	request := &v1.InvokeCoreRequest{}
	if _, err := x.decode(request, true, "core_id"); err != nil {
		return err
	}
	request.CoreId = segment(x, "core_id")
	if x.r.Header.Get("Prefer") == "respond-async" {
		request.WaitSeconds = new(int32)
	}
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := x.server.cores.InvokeCore(ctx, request)
	if err != nil {
		return err
	}
	if reply.GetExecution().GetFinishedAt() == nil {
		accepted := *x.route
		accepted.Code = http.StatusAccepted
		x.route = &accepted
	}
	x.ok(reply.GetExecution())
	return nil
}

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

var bundleSchema = object{
	"type": "object", "properties": object{
		"source": anything, "summary": anything, "diagnostics": list(anything),
	},
}

// parseBundle reads a program from a multipart form (field file), or from the body itself.
func parseBundle(x *httpRequest) error {
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
	x.data(func(b []byte) []byte { return append(b, answer...) })
	return nil
}

func badBundle(says string) error {
	return &problem{http: http.StatusBadRequest, code: "VALIDATION_ERROR", message: says}
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
	return &problem{http: http.StatusRequestEntityTooLarge, code: "VALIDATION_ERROR", message: "Bundle exceeds 10 MB limit"}
}

// bundle reads the file of the form, or the body.
func bundle(x *httpRequest) ([]byte, error) {
	body, err := x.body()
	if err != nil {
		return nil, err
	}
	defer release(body)
	kind, options, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		if len(*body) > maxBundle {
			return nil, bundleTooLarge()
		}
		return unYAML(append([]byte(nil), *body...), x.sendsYAML())
	}
	form := multipart.NewReader(bytes.NewReader(*body), options["boundary"])
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, invalidBody([]wire.Fault{{Field: "file", Message: "is missing: send the program as the field file of a form"}})
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
