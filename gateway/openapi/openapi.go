package openapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mindcoordinator/mind/gateway/wire"
)

// Operation is one method of one path.
type Operation struct {
	Method, Path string
	Summary      string
	// Open: the operation requires no token.
	Open bool
	// Stream: the answer is an event stream.
	Stream bool
	// Socket: the answer is a WebSocket.
	Socket bool
	// Permissions: the caller needs one of them; none: any caller may use the operation.
	Permissions []string
	// Code is the HTTP status of a successful answer.
	Code int
	// Accepted: the answer may also be 202, about something that is not done yet.
	Accepted bool
	// Choice: the path, or its request and answer, were not published by ScaiMind, and are defined by Mind.
	Choice bool
	// Bare: the answer has no envelope, and errors have the form of ScaiFlow.
	Bare bool

	// In and Out are the messages of body and answer; nil: there is none, or InSchema and OutSchema describe it.
	In, Out             proto.Message
	InSchema, OutSchema Object
	// Optional: the body may be omitted.
	Optional bool
	// YAML: the body may be YAML, and a program or a drawing by itself.
	YAML bool
	// Without are fields of In that callers cannot set.
	Without []string
	// Missing: the object that the query or the body names may be missing.
	Missing bool
	Query   []Parameter
	// Media is the media type of the answer; empty: JSON.
	Media string
	// Upstream: the answer may be 502.
	Upstream bool
	// Conflict: the state of the object may not allow the request.
	Conflict bool
	// Unready is the schema of the answer with status 503 of an open operation with a query; nil: none.
	Unready Object
}

// Parameter is a parameter of a query.
type Parameter struct {
	Name, Text string
	Schema     Object
}

// Object is a part of the document.
type Object = map[string]any

// prefix is the prefix of most paths; operation ids omit it.
const prefix = "/v1/modules/scaimind"

// Document returns the document as JSON.
func Document(operations []Operation) []byte {
	raw, err := json.Marshal(document(operations))
	if err != nil { // impossible: it consists of strings, numbers and maps
		panic(err)
	}
	return raw
}

func document(operations []Operation) Object {
	schemas := schemaBook{}
	paths := map[string]Object{}
	for i := range operations {
		o := &operations[i]
		if paths[o.Path] == nil {
			paths[o.Path] = Object{}
		}
		paths[o.Path][strings.ToLower(o.Method)] = operation(o, schemas)
	}
	schemas["Error"], schemas["FlowError"] = errorSchema, bareErrorSchema
	return Object{
		"openapi": "3.1.0",
		"info": Object{
			"title": "Mind", "version": "1",
			"description": "The ScaiMind surface of Mind. Operations marked x-mind-choice were not published, or only in part: their shape is Mind's choice. " +
				"Every path that accepts GET and is not an event stream accepts HEAD; every path accepts OPTIONS.",
			"license": Object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []Object{{"url": "/"}},
		"security": []Object{{"bearer": []string{}}},
		"paths":    paths,
		"components": Object{
			"schemas":         schemas,
			"securitySchemes": Object{"bearer": Object{"type": "http", "scheme": "bearer"}},
		},
	}
}

func operation(o *Operation, schemas schemaBook) Object {
	op := Object{
		"operationId": operationID(o), "summary": o.Summary, "responses": responses(o, schemas),
	}
	if o.Choice {
		op["x-mind-choice"] = true
	}
	if o.Open {
		op["security"] = []Object{}
	} else if len(o.Permissions) > 0 {
		op["x-permissions"] = o.Permissions
	}
	var parameters []Object
	for segment := range strings.SplitSeq(o.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			parameters = append(parameters, Object{
				"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": Object{"type": "string"},
			})
		}
	}
	for _, q := range o.Query {
		parameters = append(parameters, Object{"name": q.Name, "in": "query", "description": q.Text, "schema": q.Schema})
	}
	if o.Method != "GET" && !o.Open {
		parameters = append(parameters, Object{
			"name": "Idempotency-Key", "in": "header", "description": "a repeated key with the same body gets the first answer again",
			"schema": Object{"type": "string", "maxLength": 255},
		})
	}
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if body := o.InSchema; body != nil || o.In != nil {
		if body == nil {
			body = schemas.take(o.In.ProtoReflect().Descriptor(), o.Without)
		}
		content := Object{"application/json": Object{"schema": body}}
		if o.YAML {
			content["application/yaml"] = Object{"schema": Object{"description": "the same as YAML; or a program, a drawing or the YAML of one by itself, as in JSON, too"}}
		}
		op["requestBody"] = Object{"required": !o.Optional, "content": content}
	}
	return op
}

func operationID(o *Operation) string {
	var b strings.Builder
	b.WriteString(strings.ToLower(o.Method))
	for segment := range strings.SplitSeq(strings.TrimPrefix(o.Path, prefix), "/") {
		segment = strings.Trim(segment, "{}")
		if segment != "" {
			b.WriteString("_" + strings.NewReplacer(".", "_", "-", "_").Replace(segment))
		}
	}
	return b.String()
}

// responses returns the responses of a route. All errors have the same schema.
func responses(o *Operation, schemas schemaBook) Object {
	code := o.Code
	if o.Socket {
		code = http.StatusSwitchingProtocols
	}
	success := Object{"description": http.StatusText(code)}
	wrap, fault := envelope, "#/components/schemas/Error"
	if o.Bare {
		wrap, fault = func(data Object) Object { return data }, "#/components/schemas/FlowError"
	}
	switch {
	case o.Stream:
		success["content"] = Object{"text/event-stream": Object{"schema": Object{"type": "string"}}}
	case o.Media != "":
		success["content"] = Object{o.Media: Object{"schema": Object{"type": "string", "format": "binary"}}}
	case o.OutSchema != nil && o.Open:
		success["content"] = Object{"application/json": Object{"schema": o.OutSchema}}
	case o.OutSchema != nil:
		success["content"] = Object{"application/json": Object{"schema": wrap(o.OutSchema)}}
	case o.Out != nil:
		success["content"] = Object{"application/json": Object{"schema": wrap(schemas.give(o.Out.ProtoReflect().Descriptor()))}}
	}
	out := Object{strconv.Itoa(code): success}
	if o.Accepted {
		out["202"] = Object{"description": http.StatusText(http.StatusAccepted), "content": success["content"]}
	}
	refused := []int{422}
	if !o.Open {
		refused = append(refused, 400, 401, 403, 429, 500, 503, 504)
	}
	if o.Missing || strings.Contains(o.Path, "{") {
		refused = append(refused, 404)
	}
	if o.Conflict || !o.Open && (o.Method != "GET" || o.Stream || o.Socket) {
		refused = append(refused, 409)
	}
	if o.Method != "GET" {
		refused = append(refused, 413, 415)
	}
	if o.Upstream {
		refused = append(refused, 502)
	}
	if o.Unready != nil {
		out["503"] = Object{
			"description": http.StatusText(http.StatusServiceUnavailable), "content": Object{"application/json": Object{"schema": o.Unready}},
		}
	}
	for _, code := range refused {
		out[strconv.Itoa(code)] = Object{
			"description": http.StatusText(code),
			"content":     Object{"application/json": Object{"schema": Object{"$ref": fault}}},
		}
	}
	return out
}

// envelope returns the schema of a successful answer.
func envelope(data Object) Object {
	return Object{
		"type": "object", "required": []string{"status", "data", "meta"},
		"properties": Object{"status": Object{"const": "ok"}, "data": data, "meta": metaSchema},
	}
}

var (
	metaSchema = Object{"type": "object", "required": []string{"request_id"}, "properties": Object{"request_id": Text}}
	// faultSchema is one wrong field.
	faultSchema = Object{"type": "object", "required": []string{"field", "message"}, "properties": Object{"field": Text, "message": Text}}
	// bareErrorSchema is an error as ScaiFlow published it. Some have more than these.
	bareErrorSchema = Object{
		"type": "object", "required": []string{"detail"},
		"properties": Object{"detail": Object{
			"type": "object", "required": []string{"error", "message"},
			"properties": Object{
				"error": Text, "message": Text, "fix": Text, "retry_after": Object{"type": "integer"},
				"details": Object{"type": "array", "items": faultSchema},
			},
		}},
	}
	errorSchema = Object{
		"type": "object", "required": []string{"status", "error", "meta"},
		"properties": Object{
			"status": Object{"const": "error"}, "meta": metaSchema,
			"error": Object{
				"type": "object", "required": []string{"code", "message"},
				"properties": Object{
					"code": Text, "message": Text, "retry_after": Object{"type": "integer"},
					"details": Object{"type": "array", "items": faultSchema},
				},
			},
		},
	}
)

// schemaBook collects the schemas of messages, for requests and for answers: an answer has every field; a request may omit
// any.
type schemaBook map[string]Object

func (s schemaBook) take(d protoreflect.MessageDescriptor, without []string) Object {
	return s.message(d, "", without)
}

func (s schemaBook) give(d protoreflect.MessageDescriptor) Object {
	return s.message(d, "Answer", nil)
}

func (s schemaBook) message(d protoreflect.MessageDescriptor, suffix string, without []string) Object {
	switch d.FullName() {
	case "google.protobuf.Timestamp":
		return Object{"type": "string", "format": "date-time"}
	case "google.protobuf.Struct":
		return Object{"type": "object"}
	case "google.protobuf.Value":
		return Object{}
	}
	name := string(d.Name()) + suffix
	ref := Object{"$ref": "#/components/schemas/" + name}
	if s[name] != nil {
		return ref
	}
	shape := Object{"type": "object"}
	s[name] = shape // before its fields: a message may contain its own type
	properties, names := Object{}, []string{}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if slices.Contains(without, string(f.Name())) || wire.EmptiedOf(f) != "" {
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

func (s schemaBook) field(f protoreflect.FieldDescriptor, suffix string) Object {
	switch {
	case f.IsMap():
		return Object{"type": "object", "additionalProperties": s.value(f.MapValue(), suffix)}
	case f.IsList():
		return Object{"type": "array", "items": s.value(f, suffix)}
	case suffix != "" && (wire.JSONField(f) || f.HasPresence() || f.Kind() == protoreflect.EnumKind || f.Kind() == protoreflect.DoubleKind): // NaN is null
		return Object{"anyOf": []Object{s.value(f, suffix), {"type": "null"}}}
	}
	return s.value(f, suffix)
}

func (s schemaBook) value(f protoreflect.FieldDescriptor, suffix string) Object {
	switch f.Kind() {
	case protoreflect.StringKind:
		if wire.JSONField(f) {
			return Object{"type": "object"}
		}
		return Text
	case protoreflect.BytesKind:
		return Object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.BoolKind:
		return Object{"type": "boolean"}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return Object{"type": "number"}
	case protoreflect.EnumKind:
		var names []string
		values := f.Enum().Values()
		for i := range values.Len() {
			if v := values.Get(i); v.Number() != 0 {
				names = append(names, string(v.Name()))
			}
		}
		return Object{"type": "string", "enum": names}
	case protoreflect.MessageKind:
		return s.message(f.Message(), suffix, nil)
	}
	return Object{"type": "integer"}
}
