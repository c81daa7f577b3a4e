package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/gateway/wire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The OpenAPI document is made from what serves: the table of routes, their descriptions, and the descriptors of the messages
// that bodies are read into and answers are written from. So it cannot say anything else than the code does.

// description is what the table of routes does not need to know to serve a route.
type description struct {
	summary string
	// in and out are the messages of body and answer; nil: none, or one that is spelled out in inSchema and outSchema.
	in, out             proto.Message
	inSchema, outSchema object
	// optional: the body may be left out.
	optional bool
	// without are fields of in that cannot be set from outside.
	without []string
	code    int // of the answer; 0: 200
	// missing: what query or body name may not be there.
	missing bool
	query   []parameter
	// ours: the path was not published, or only that there is one; what it takes and answers is our choice.
	ours bool
}

type parameter struct {
	name, text string
	schema     object
}

type object = map[string]any

func openAPIDocument() []byte {
	raw, err := json.Marshal(openAPI(table(), descriptions()))
	if err != nil { // it is made of strings, numbers and maps
		panic(err)
	}
	return raw
}

func serveOpenAPI(x *exchange) error {
	h := x.w.Header()
	document := x.server.document()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(document)))
	x.mark(h)
	x.code = http.StatusOK
	x.w.WriteHeader(http.StatusOK)
	_, _ = x.w.Write(document) // a caller who hung up needs no answer
	return nil
}

func openAPI(routes []route, described map[string]description) object {
	schemas := schemaBook{}
	paths := map[string]object{}
	for i := range routes {
		r := &routes[i]
		d := described[r.method+" "+strings.TrimPrefix(r.path, prefix)]
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path][strings.ToLower(r.method)] = operation(r, &d, schemas)
	}
	schemas["Error"] = errorSchema
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Mind", "version": "1",
			"description": "The ScaiMind surface of Mind. Operations marked x-mind-choice were not published, or only in part: their shape is our choice. " +
				"What takes GET and is no event stream takes HEAD; every path takes OPTIONS.",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []object{{"url": "/"}},
		"security": []object{{"bearer": []string{}}},
		"paths":    paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"bearer": object{"type": "http", "scheme": "bearer"}},
		},
	}
}

func operation(r *route, d *description, schemas schemaBook) object {
	op := object{
		"operationId": operationID(r), "summary": d.summary, "responses": responses(r, d, schemas),
	}
	if d.ours {
		op["x-mind-choice"] = true
	}
	if r.open {
		op["security"] = []object{}
	} else if len(r.anyOf) > 0 {
		op["x-permissions"] = r.anyOf
	}
	var parameters []object
	for segment := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			parameters = append(parameters, object{
				"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"},
			})
		}
	}
	for _, q := range d.query {
		parameters = append(parameters, object{"name": q.name, "in": "query", "description": q.text, "schema": q.schema})
	}
	if r.method != "GET" && !r.open {
		parameters = append(parameters, object{
			"name": headerIdempotencyKey, "in": "header", "description": "the same key with the same body gets the first answer again",
			"schema": object{"type": "string", "maxLength": 255},
		})
	}
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if body := d.inSchema; body != nil || d.in != nil {
		if body == nil {
			body = schemas.take(d.in.ProtoReflect().Descriptor(), d.without)
		}
		op["requestBody"] = object{"required": !d.optional, "content": object{"application/json": object{"schema": body}}}
	}
	return op
}

func operationID(r *route) string {
	var b strings.Builder
	b.WriteString(strings.ToLower(r.method))
	for segment := range strings.SplitSeq(strings.TrimPrefix(r.path, prefix), "/") {
		segment = strings.Trim(segment, "{}")
		if segment != "" {
			b.WriteString("_" + strings.NewReplacer(".", "_", "-", "_").Replace(segment))
		}
	}
	return b.String()
}

// responses lists what a route may answer. Every error is of one shape.
func responses(r *route, d *description, schemas schemaBook) object {
	code := d.code
	if code == 0 {
		code = http.StatusOK
	}
	success := object{"description": http.StatusText(code)}
	switch {
	case r.stream:
		success["content"] = object{"text/event-stream": object{"schema": object{"type": "string"}}}
	case d.outSchema != nil && r.open:
		success["content"] = object{"application/json": object{"schema": d.outSchema}}
	case d.outSchema != nil:
		success["content"] = object{"application/json": object{"schema": envelope(d.outSchema)}}
	case d.out != nil:
		success["content"] = object{"application/json": object{"schema": envelope(schemas.give(d.out.ProtoReflect().Descriptor()))}}
	}
	out := object{strconv.Itoa(code): success}
	refused := []int{}
	if !r.open {
		refused = append(refused, 400, 401, 403, 422, 429, 500, 503, 504)
		if d.missing || strings.Contains(r.path, "{") {
			refused = append(refused, 404)
		}
		if r.method != "GET" || r.stream {
			refused = append(refused, 409)
		}
		if r.method != "GET" {
			refused = append(refused, 413)
		}
	} else if r.path == "/health/ready" {
		refused = append(refused, 422)
		out["503"] = object{
			"description": http.StatusText(http.StatusServiceUnavailable), "content": object{"application/json": object{"schema": readySchema}},
		}
	}
	for _, code := range refused {
		out[strconv.Itoa(code)] = object{
			"description": http.StatusText(code),
			"content":     object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}},
		}
	}
	return out
}

func envelope(data object) object {
	return object{
		"type": "object", "required": []string{"status", "data", "meta"},
		"properties": object{"status": object{"const": "ok"}, "data": data, "meta": metaSchema},
	}
}

var (
	textSchema = object{"type": "string"}
	// readySchema is an answer of /health/ready, of either code.
	readySchema = object{
		"type": "object", "required": []string{"status", "checks"},
		"properties": object{
			"status": object{"enum": []string{"ready", "not_ready"}},
			"checks": object{"type": "object", "additionalProperties": object{"type": "string"}},
		},
	}
	metaSchema = object{"type": "object", "required": []string{"request_id"}, "properties": object{"request_id": textSchema}}
	// faultSchema is one wrong field.
	faultSchema = object{"type": "object", "required": []string{"field", "message"}, "properties": object{"field": textSchema, "message": textSchema}}
	errorSchema = object{
		"type": "object", "required": []string{"status", "error", "meta"},
		"properties": object{
			"status": object{"const": "error"}, "meta": metaSchema,
			"error": object{
				"type": "object", "required": []string{"code", "message"},
				"properties": object{
					"code": textSchema, "message": textSchema, "retry_after": object{"type": "integer"},
					"details": object{"type": "array", "items": faultSchema},
				},
			},
		},
	}
)

// schemaBook collects the schemas of messages, as they are taken and as they are given: what is given has every field, what
// is taken need have none.
type schemaBook map[string]object

func (s schemaBook) take(d protoreflect.MessageDescriptor, without []string) object {
	return s.message(d, "", without)
}

func (s schemaBook) give(d protoreflect.MessageDescriptor) object {
	return s.message(d, "Answer", nil)
}

func (s schemaBook) message(d protoreflect.MessageDescriptor, suffix string, without []string) object {
	switch d.FullName() {
	case "google.protobuf.Timestamp":
		return object{"type": "string", "format": "date-time"}
	case "google.protobuf.Struct":
		return object{"type": "object"}
	}
	name := string(d.Name()) + suffix
	ref := object{"$ref": "#/components/schemas/" + name}
	if s[name] != nil {
		return ref
	}
	shape := object{"type": "object"}
	s[name] = shape // before its fields: a message may hold its own kind
	properties, names := object{}, []string{}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if slices.Contains(without, string(f.Name())) {
			continue
		}
		properties[string(f.Name())] = s.field(f, suffix)
		names = append(names, string(f.Name()))
	}
	shape["properties"] = properties
	if suffix != "" {
		shape["required"] = names
	} else if !wire.Lenient(d) {
		shape["additionalProperties"] = false
	}
	return ref
}

func (s schemaBook) field(f protoreflect.FieldDescriptor, suffix string) object {
	switch {
	case f.IsMap():
		return object{"type": "object", "additionalProperties": s.value(f.MapValue(), suffix)}
	case f.IsList():
		return object{"type": "array", "items": s.value(f, suffix)}
	case suffix != "" && (f.HasPresence() || f.Kind() == protoreflect.EnumKind || f.Kind() == protoreflect.DoubleKind): // NaN is null
		return object{"anyOf": []object{s.value(f, suffix), {"type": "null"}}}
	}
	return s.value(f, suffix)
}

func (s schemaBook) value(f protoreflect.FieldDescriptor, suffix string) object {
	switch f.Kind() {
	case protoreflect.StringKind:
		return textSchema
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return object{"type": "number"}
	case protoreflect.EnumKind:
		var names []string
		values := f.Enum().Values()
		for i := range values.Len() {
			if v := values.Get(i); v.Number() != 0 {
				names = append(names, string(v.Name()))
			}
		}
		return object{"type": "string", "enum": names}
	case protoreflect.MessageKind:
		return s.message(f.Message(), suffix, nil)
	}
	return object{"type": "integer"}
}
