package document

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
)

// Generator draws requests from the OpenAPI document. Most of them are almost valid, because an obviously invalid
// request reaches only the first check.
type Generator struct {
	Rand     *rand.Rand
	Document *Document
	// IDs lists ids of objects that exist, and some of objects that do not.
	IDs []string
}

// tame has harmless values for strings that the cluster runs, opens or calls.
var tame = map[string][]string{
	"argv":               {"true", "/bin/true", "no-such-program"},
	"distributed_argv":   {"true", "no-such-program"},
	"command":            {"true", "exit 3", ":"},
	"custom_script_path": {"/bin/true", "/no/such/script"},
	"cwd":                {"/", "/no/such/folder", ""},
	// Agents make the folder.
	"output_dir": {"", "relative"},
	"path":       {"file:///no/such/file", "", "nothing", "s3://", "hf://", "file://%zz", "gopher://x/y", "scaidrive://a/b"},
	"dataset":    {"file:///no/such/file", ""},
	"model_uri":  {"file:///no/such/model", "", "scaidrive://a/b"},
	// A request must not change tokens or quotas of tenants that exist.
	"tenant_id": {"", "conformance-elsewhere"},
}

var strange = []string{
	"", "x", "0", "null", "true", "../../etc/passwd", "a\x00b", "'; DROP TABLE jobs; --", "<script>", "%s%n%d", "ключ", "💥", "\u202e", "\ufeff",
	strings.Repeat("a", 300), strings.Repeat("é", 5000), "{{.}}", "{nnodes}", "${HOME}", "key=value", "\r\nX-Evil: 1", "-1", "1e309",
}

var numbers = []any{0, 1, -1, 2, 8, 64, 1000, 1 << 31, -(1 << 31), 1<<31 - 1, int64(1) << 62, 0.5, -0.5, 1e300, json.Number("1e400"), json.Number("99999999999999999999"), 1.0}

// Drawn is a request that was drawn, without its method.
type Drawn struct {
	Path, Query string
	Header      map[string]string
	Body        []byte // nil: none
}

// Request draws one request. example is a valid body; nil if none is known.
func (g *Generator) Request(op Operation, template string, example map[string]any) Drawn {
	var q Drawn
	q.Path = template
	if from, to := strings.Index(template, "{"), strings.Index(template, "}"); from >= 0 {
		id := g.IDs[g.Rand.IntN(len(g.IDs))]
		if g.Rand.IntN(8) == 0 {
			id = pick(g.Rand, strange)
		}
		if id == "" {
			id = "-"
		}
		q.Path = template[:from] + url.PathEscape(id) + template[to+1:]
	}
	query := url.Values{}
	for _, p := range op.Parameters {
		if p.In != "query" {
			continue
		}
		switch {
		case p.Name == "follow":
			query.Set("follow", "false") // otherwise the stream would not end
		case g.Rand.IntN(3) == 0:
			query.Add(p.Name, g.text(p.Schema))
		}
	}
	if strings.HasSuffix(template, "/stream") || strings.HasSuffix(template, "/logs") {
		query.Set("follow", "false")
	}
	q.Query = query.Encode()
	if schema := g.Document.BodySchema(op); schema != nil && g.Rand.IntN(20) > 0 {
		body := g.object(schema, 0)
		if example != nil && g.Rand.IntN(2) == 0 {
			body = g.near(example, schema)
		}
		if raw, err := json.Marshal(body); err == nil {
			q.Body = g.damage(raw)
		}
	}
	if g.Rand.IntN(10) == 0 {
		q.Header = map[string]string{"Idempotency-Key": pick(g.Rand, []string{"one", "two", "auto:x", strings.Repeat("k", 256)})}
	}
	return q
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// damage damages the bytes of some bodies.
func (g *Generator) damage(raw []byte) []byte {
	if len(raw) == 0 || g.Rand.IntN(12) > 0 {
		return raw
	}
	raw = slices.Clone(raw)
	switch g.Rand.IntN(4) {
	case 0:
		raw[g.Rand.IntN(len(raw))] = byte(g.Rand.IntN(256))
	case 1:
		raw = raw[:g.Rand.IntN(len(raw))]
	case 2:
		at := g.Rand.IntN(len(raw))
		raw = slices.Insert(raw, at, raw[at:]...)
	case 3:
		raw = append(raw, raw...)
	}
	return g.harmless(raw)
}

// harmless replaces a damaged body that is still JSON by one that is not, because it might contain other commands than
// those in tame.
func (g *Generator) harmless(raw []byte) []byte {
	if json.Valid(raw) {
		return []byte(`{`)
	}
	return raw
}

func (g *Generator) object(schema map[string]any, depth int) map[string]any {
	properties, _ := schema["properties"].(map[string]any)
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		likely := 3
		if name == "name" || name == "framework" || name == "sources" || name == "benchmarks" || name == "permissions" {
			likely = 9
		}
		if g.Rand.IntN(10) >= likely && depth < 6 {
			continue
		}
		property, _ := properties[name].(map[string]any)
		out[name] = g.value(name, property, depth+1)
	}
	if g.Rand.IntN(60) == 0 {
		out[pick(g.Rand, strange)] = 1
	}
	return out
}

// near returns a valid example with one value replaced. Completely random bodies rarely pass the first checks.
func (g *Generator) near(example, schema map[string]any) map[string]any {
	out := maps.Clone(example)
	properties, _ := schema["properties"].(map[string]any)
	names := slices.Sorted(maps.Keys(properties))
	if len(names) == 0 {
		return out
	}
	for range g.Rand.IntN(3) {
		name := pick(g.Rand, names)
		property, _ := properties[name].(map[string]any)
		nested, deeper := out[name].(map[string]any)
		if resolved := g.Document.Resolve(property); deeper && resolved["properties"] != nil {
			out[name] = g.near(nested, resolved)
			continue
		}
		out[name] = g.value(name, property, 1)
	}
	return out
}

func (g *Generator) value(name string, schema map[string]any, depth int) any {
	schema = g.Document.Resolve(schema)
	if g.Rand.IntN(40) == 0 && tame[name] == nil {
		return pick(g.Rand, []any{nil, "text", 7, true, []any{}, map[string]any{}, []any{nil}})
	}
	switch schema["type"] {
	case "array":
		items, _ := schema["items"].(map[string]any)
		n := g.Rand.IntN(3)
		if g.Rand.IntN(100) == 0 {
			n = 200
		}
		list := []any{}
		for range n {
			list = append(list, g.value(name, items, depth+1))
		}
		return list
	case "object":
		if schema["properties"] == nil {
			of, _ := schema["additionalProperties"].(map[string]any)
			out := map[string]any{}
			for range g.Rand.IntN(3) {
				// A variable of the environment could change what a program does, so these have names that no program
				// reads.
				out[pick(g.Rand, []string{"A", "team", "type", "lora_r", "k" + pick(g.Rand, strange)})] = g.value("", of, depth+1)
			}
			return out
		}
		return g.object(schema, depth)
	case "integer", "number":
		if g.Rand.IntN(2) == 0 {
			return g.Rand.IntN(9)
		}
		return pick(g.Rand, numbers)
	case "boolean":
		return g.Rand.IntN(2) == 0
	}
	if values, ok := schema["enum"].([]any); ok && g.Rand.IntN(10) > 0 {
		return pick(g.Rand, values)
	}
	if from := tame[name]; from != nil {
		return pick(g.Rand, from)
	}
	if schema["format"] == "date-time" {
		return pick(g.Rand, []string{"2026-01-31T08:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "yesterday"})
	}
	if g.Rand.IntN(3) == 0 {
		return pick(g.Rand, g.IDs)
	}
	return pick(g.Rand, strange)
}

// text returns a value for a parameter of the query.
func (g *Generator) text(schema map[string]any) string {
	if g.Rand.IntN(4) == 0 {
		return pick(g.Rand, strange)
	}
	switch schema["type"] {
	case "integer":
		return pick(g.Rand, []string{"0", "1", "5", "100", "-1", "1000000", "99999999999999999999"})
	case "boolean":
		return pick(g.Rand, []string{"true", "false", "yes"})
	}
	if values, ok := schema["enum"].([]any); ok {
		if s, ok := pick(g.Rand, values).(string); ok {
			return s
		}
	}
	return pick(g.Rand, append([]string{"created_at", "priority desc", "COMPLETED", "team=a", "10m", "2026-01-31T08:00:00Z"}, g.IDs...))
}
