package cores

import (
	"encoding/json"
	"fmt"
	"mime"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/flow/compile"
	"github.com/mindcoordinator/mind/flow/forms"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// createCore makes a Core. Its program may have any form, and be the whole body.
func (h *Handlers) createCore(x *rest.Request) error {
	request := &v1.CreateCoreRequest{}
	source, err := decodeCore(x, request)
	if err != nil {
		return err
	}
	if source != nil {
		request.Source = source
	}
	return rest.Unary(x, request, h.cores.CreateCore, func(r *v1.CreateCoreResponse) proto.Message { return r.GetCore() })
}

// updateCore changes a Core, as createCore makes one.
func (h *Handlers) updateCore(x *rest.Request) error {
	request := &v1.UpdateCoreRequest{}
	source, err := decodeCore(x, request, "core_id")
	if err != nil {
		return err
	}
	if source != nil {
		request.Source = source
	}
	request.CoreId = x.Segment("core_id")
	return rest.Unary(x, request, h.cores.UpdateCore, func(r *v1.UpdateCoreResponse) proto.Message { return r.GetCore() })
}

// coreRequest is a CreateCoreRequest or an UpdateCoreRequest.
type coreRequest interface {
	proto.Message
	GetSource() *structpb.Struct
}

// decodeCore reads a request about a Core. A program in another form than the intermediate one is compiled, and returned; nil: the one in
// the request, if there is one, is as it has to be.
func decodeCore(x *rest.Request, request coreRequest, without ...string) (*structpb.Struct, error) {
	body, err := x.Body()
	if err != nil {
		return nil, err
	}
	defer rest.Release(body)
	text := *body
	if sendsYAML(x) {
		if text, err = compile.JSON(text); err != nil {
			return nil, rest.InvalidBody([]wire.Fault{{Message: err.Error()}})
		}
	}
	_, makes := request.(*v1.CreateCoreRequest)
	if text, err = wrapped(text, makes); err != nil {
		return nil, err
	}
	if faults, _ := wire.Decode(text, request, without...); len(faults) > 0 {
		return nil, rest.InvalidBody(faults)
	}
	if request.GetSource() == nil {
		return nil, nil
	}
	raw, err := request.GetSource().MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("reading a program: %w", err)
	}
	if form, _ := forms.Of(raw); form == forms.Program {
		return nil, nil
	}
	return compiledSource(raw)
}

// sendsYAML reports whether the body is YAML.
func sendsYAML(x *rest.Request) bool { return isYAML(x.R.Header.Get("Content-Type")) }

func isYAML(contentType string) bool {
	switch kind, _, _ := mime.ParseMediaType(contentType); kind {
	case "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml":
		return true
	}
	return false
}

// wrapped is a body that is itself a program as the source of a request, with its name if it makes a Core: one that is there keeps its
// own. Other bodies stay as they are.
func wrapped(text []byte, named bool) ([]byte, error) {
	var root struct {
		Nodes json.RawMessage `json:"nodes"`
		Core  json.RawMessage `json:"core"`
		Flows json.RawMessage `json:"flows"`
	}
	if json.Unmarshal(text, &root) != nil || root.Nodes == nil && root.Core == nil && root.Flows == nil {
		return text, nil
	}
	request := map[string]any{"source": json.RawMessage(text)}
	if named {
		_, request["name"] = forms.Of(text)
	}
	out, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("reading a program: %w", err)
	}
	return out, nil
}

// maxFindings is how many findings about a program an answer has.
const maxFindings = 100

// compiledSource compiles a drawing or a manifest. One that cannot run is refused, with the place of each finding.
func compiledSource(raw []byte) (*structpb.Struct, error) {
	m, found := forms.Module(raw)
	if wrong := forms.Obstacles(found); m == nil || len(wrong) > 0 {
		var faults []wire.Fault
		for _, d := range wrong[:min(len(wrong), maxFindings)] {
			field := "source"
			if d.Path != "" {
				field += "." + d.Path
			}
			faults = append(faults, wire.Fault{Field: field, Message: d.Message + " [" + d.Code + "]"})
		}
		return nil, rest.InvalidBody(faults)
	}
	encoded, err := m.Encode()
	if err != nil {
		return nil, fmt.Errorf("writing a program: %w", err)
	}
	source, err := numbers.ParseObject(encoded)
	if err != nil {
		return nil, fmt.Errorf("writing a program: %w", err)
	}
	return source, nil
}
