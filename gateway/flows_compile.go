package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/expr"
	"github.com/mindcoordinator/mind/flow/graph"
	"github.com/mindcoordinator/mind/flow/rehearse"
)

// maxFlow bounds a content, bytes; more is never stored.
const maxFlow = 512 << 10

// json answers with a value as JSON.
func (x *httpRequest) json(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing an answer: %w", err)
	}
	x.data(func(b []byte) []byte { return append(b, raw...) })
	return nil
}

// checkedContent refuses a content that is missing or too large.
func checkedContent(content string) ([]byte, error) {
	switch {
	case content == "":
		return nil, invalid("content", "is missing: send the graph of the flow")
	case len(content) > maxFlow:
		return nil, invalid("content", fmt.Sprintf("has %d bytes, and at most %d are taken", len(content), maxFlow))
	}
	return []byte(content), nil
}

// found is findings for an answer: a list, also without any.
func found(all []graph.Diagnostic) []graph.Diagnostic {
	if all == nil {
		return []graph.Diagnostic{}
	}
	return all
}

// flowKinds answers with the kinds of nodes, as the compiler has them, and with the functions of expressions.
func flowKinds(x *httpRequest) error {
	return x.json(map[string]any{"kinds": graph.Kinds(), "categories": graph.Categories(), "functions": expr.Signatures()})
}

// validateFlow says what is wrong with a content. Warnings leave it valid.
func validateFlow(x *httpRequest) error {
	body := &v1.ValidateFlowBody{}
	if _, err := x.decode(body, false); err != nil {
		return err
	}
	content, err := checkedContent(body.GetContent())
	if err != nil {
		return err
	}
	all := compile.Check(content)
	return x.json(map[string]any{"valid": !graph.Failed(all), "diagnostics": found(all)})
}

// compileFlow compiles a content. Errors of the compiler are in the answer, as was published.
func compileFlow(x *httpRequest) error {
	body := &v1.CompileFlowBody{}
	if _, err := x.decode(body, false); err != nil {
		return err
	}
	content, err := checkedContent(body.GetContent())
	if err != nil {
		return err
	}
	format := body.GetFormat()
	if format == "" {
		format = "yaml"
	}
	var text string
	var all []graph.Diagnostic
	switch format {
	case "yaml":
		var made []byte
		made, all = compile.Manifest(content)
		text = string(made)
	case "ir":
		m, diagnostics := compile.Program(content)
		if all = diagnostics; m != nil {
			raw, err := m.Encode()
			if err != nil {
				return fmt.Errorf("writing a program: %w", err)
			}
			text = base64.StdEncoding.EncodeToString(raw)
		}
	case "scai":
		all = []graph.Diagnostic{{Severity: graph.SeverityError, Code: "NOT_SUPPORTED", Message: "the language ScaiCore is not written: use yaml or ir"}}
	default:
		return invalid("format", "must be yaml, ir or scai")
	}
	errors := []graph.Diagnostic{}
	for _, d := range all {
		if d.Severity == graph.SeverityError {
			errors = append(errors, d)
		}
	}
	return x.json(map[string]any{"format": format, "body": text, "errors": errors})
}

// testFlow runs the tests in the content of a flow, here: they touch no cluster.
func testFlow(x *httpRequest) error {
	body := &v1.TestFlowBody{}
	if _, err := x.decode(body, true); err != nil {
		return err
	}
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := x.server.flows.GetFlow(ctx, &v1.GetFlowRequest{FlowId: segment(x, "flow_id"), Version: body.GetVersion(), Level: "deploy"})
	if err != nil {
		return err
	}
	report, err := tested(ctx, []byte(reply.GetFlow().GetContent()))
	if err != nil {
		return err
	}
	return x.json(report)
}

// tested runs the tests of a content.
func tested(ctx context.Context, content []byte) (*rehearse.Report, error) {
	m, diagnostics := compile.Program(content)
	if m == nil || graph.Failed(diagnostics) {
		p := &problem{http: http.StatusBadRequest, code: "COMPILE_ERROR", message: "the flow cannot be compiled"}
		if d := compile.Obstacle(diagnostics); d != nil {
			p.message = d.Message
		}
		raw, err := json.Marshal(found(diagnostics))
		if err != nil {
			return nil, fmt.Errorf("writing findings: %w", err)
		}
		p.more = append([]byte(`,"diagnostics":`), raw...)
		return nil, p
	}
	var graph struct {
		Tests json.RawMessage `json:"tests"`
	}
	if err := json.Unmarshal(content, &graph); err != nil {
		return nil, fmt.Errorf("reading the tests of a flow: %w", err)
	}
	cases, err := rehearse.ParseCases(graph.Tests)
	if err != nil {
		return nil, &problem{http: http.StatusBadRequest, code: "INVALID_ARGUMENT", message: "tests: " + err.Error()}
	}
	report := rehearse.RunCases(ctx, m, cases, time.Now())
	return &report, nil
}

// deployFlow deploys a flow.
func deployFlow(x *httpRequest) error {
	request := &v1.DeployFlowRequest{}
	if _, err := x.decode(request, true, "flow_id"); err != nil {
		return err
	}
	request.FlowId = segment(x, "flow_id")
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := x.server.flows.DeployFlow(ctx, request)
	if err != nil {
		return err
	}
	if reply.GetFault() != nil {
		return refusedFlow(reply.GetFault())
	}
	x.ok(reply.GetDeployed())
	return nil
}
