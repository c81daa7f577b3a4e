package flows

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/expr/syntax"
	"github.com/mindcoordinator/mind/flow/graph"
	"github.com/mindcoordinator/mind/flow/rehearse"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// maxFlow bounds a content, bytes; more is never stored.
const maxFlow = 512 << 10

// checkedContent refuses a content that is missing or too large.
func checkedContent(content string) ([]byte, error) {
	switch {
	case content == "":
		return nil, rest.Invalid("content", "is missing: send the graph of the flow")
	case len(content) > maxFlow:
		return nil, rest.Invalid("content", fmt.Sprintf("has %d bytes, and at most %d are taken", len(content), maxFlow))
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
func flowKinds(x *rest.Request) error {
	return x.JSON(map[string]any{"kinds": graph.Kinds(), "categories": graph.Categories(), "functions": syntax.Signatures()})
}

// validateFlow says what is wrong with a content. Warnings leave it valid.
func validateFlow(x *rest.Request) error {
	body := &v1.ValidateFlowBody{}
	if _, err := x.Decode(body, false); err != nil {
		return err
	}
	content, err := checkedContent(body.GetContent())
	if err != nil {
		return err
	}
	all := compile.Check(content)
	return x.JSON(map[string]any{"valid": !graph.Failed(all), "diagnostics": found(all)})
}

// compileFlow compiles a content. Errors of the compiler are in the answer, as was published.
func compileFlow(x *rest.Request) error {
	body := &v1.CompileFlowBody{}
	if _, err := x.Decode(body, false); err != nil {
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
		return rest.Invalid("format", "must be yaml, ir or scai")
	}
	errors := []graph.Diagnostic{}
	for _, d := range all {
		if d.Severity == graph.SeverityError {
			errors = append(errors, d)
		}
	}
	return x.JSON(map[string]any{"format": format, "body": text, "errors": errors})
}

// testFlow runs the tests in the content of a flow, here: they touch no cluster.
func (h *Handlers) testFlow(x *rest.Request) error {
	body := &v1.TestFlowBody{}
	if _, err := x.Decode(body, true); err != nil {
		return err
	}
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := h.flows.GetFlow(ctx, &v1.GetFlowRequest{FlowId: x.Segment("flow_id"), Version: body.GetVersion(), Level: "deploy"})
	if err != nil {
		return err
	}
	report, err := tested(ctx, []byte(reply.GetFlow().GetContent()))
	if err != nil {
		return err
	}
	return x.JSON(report)
}

// tested runs the tests of a content.
func tested(ctx context.Context, content []byte) (*rehearse.Report, error) {
	m, diagnostics := compile.Program(content)
	if m == nil || graph.Failed(diagnostics) {
		p := &rest.Problem{HTTP: http.StatusBadRequest, Code: "COMPILE_ERROR", Message: "the flow cannot be compiled"}
		if d := compile.Obstacle(diagnostics); d != nil {
			p.Message = d.Message
		}
		raw, err := json.Marshal(found(diagnostics))
		if err != nil {
			return nil, fmt.Errorf("writing findings: %w", err)
		}
		p.More = append([]byte(`,"diagnostics":`), raw...)
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
		return nil, &rest.Problem{HTTP: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Message: "tests: " + err.Error()}
	}
	report := rehearse.RunCases(ctx, m, cases, time.Now())
	return &report, nil
}

// deployFlow deploys a flow.
func (h *Handlers) deployFlow(x *rest.Request) error {
	request := &v1.DeployFlowRequest{}
	if _, err := x.Decode(request, true, "flow_id"); err != nil {
		return err
	}
	request.FlowId = x.Segment("flow_id")
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := h.flows.DeployFlow(ctx, request)
	if err != nil {
		return err
	}
	if reply.GetFault() != nil {
		return refusedFlow(reply.GetFault())
	}
	x.OK(reply.GetDeployed())
	return nil
}
