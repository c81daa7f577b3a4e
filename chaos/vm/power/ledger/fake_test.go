package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// fake answers like a gateway. Tests change its state in ways that a power cut must not.
type fake struct {
	mu       sync.Mutex
	order    []string
	jobs     map[string]map[string]any
	keys     map[string]string
	points   []Checkpoint
	health   string
	reason   string
	limit    int
	tokens   map[string]string
	revision int
}

func newFake(t *testing.T) (*fake, *procs.REST) {
	t.Helper()
	f := &fake{jobs: map[string]map[string]any{}, keys: map[string]string{}, health: Healthy, limit: -1, tokens: map[string]string{}}
	mux := http.NewServeMux()
	api := "/v1/modules/scaimind"
	handle := func(pattern string, do func(r *http.Request, body map[string]any) any) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			body := map[string]any{}
			_ = json.NewDecoder(r.Body).Decode(&body)
			envelope := map[string]any{"status": "ok", "data": do(r, body)}
			if code, ok := envelope["data"].(int); ok {
				w.WriteHeader(code)
				envelope = map[string]any{"status": "error", "error": map[string]any{"code": "X", "message": "no"}}
			}
			_ = json.NewEncoder(w).Encode(envelope)
		})
	}
	submit := func(key string, body map[string]any) map[string]any {
		if id, ok := f.keys[key]; ok {
			return map[string]any{"job_id": id}
		}
		id := fmt.Sprintf("job_%d", len(f.order)+1)
		f.revision++
		job := maps.Clone(body)
		maps.Copy(job, map[string]any{"job_id": id, "state": "QUEUED", "revision": f.revision, "attempt": 1, "created_at": "now"})
		f.order, f.jobs[id], f.keys[key] = append(f.order, id), job, id
		return map[string]any{"job_id": id}
	}
	handle("POST "+api+"/jobs", func(r *http.Request, body map[string]any) any { return submit(r.Header.Get("Idempotency-Key"), body) })
	handle("POST "+api+"/jobs/batch", func(_ *http.Request, body map[string]any) any {
		var results []any
		for i, job := range body["jobs"].([]any) {
			result := submit(body["idempotency_keys"].([]any)[i].(string), job.(map[string]any))
			result["http_status"] = http.StatusCreated
			results = append(results, result)
		}
		return map[string]any{"results": results}
	})
	handle("GET "+api+"/jobs", func(*http.Request, map[string]any) any {
		var all []any
		for _, id := range f.order {
			if j := f.jobs[id]; j != nil {
				all = append(all, j)
			}
		}
		return map[string]any{"jobs": all, "next_page_token": ""}
	})
	handle("GET "+api+"/jobs/{id}", func(r *http.Request, _ map[string]any) any {
		if j := f.jobs[r.PathValue("id")]; j != nil {
			return j
		}
		return http.StatusNotFound
	})
	handle("POST "+api+"/jobs/{id}/cancel", func(r *http.Request, _ map[string]any) any {
		f.set(r.PathValue("id"), map[string]any{"state": "CANCELED"})
		return map[string]any{}
	})
	handle("GET "+api+"/jobs/{id}/checkpoints", func(*http.Request, map[string]any) any { return map[string]any{"checkpoints": f.points} })
	handle("GET "+api+"/cluster/nodes", func(*http.Request, map[string]any) any {
		return map[string]any{"nodes": []Node{{ID: "n1", State: "READY", Roster: true, GPUs: []gpu{{UUID: "gpu-1", Health: f.health, Reason: f.reason}}}}}
	})
	handle("POST "+api+"/cluster/nodes/{id}/enable", func(*http.Request, map[string]any) any { return map[string]any{} })
	handle("PUT "+api+"/queues/{name}", func(_ *http.Request, body map[string]any) any {
		f.limit = int(body["max_gpus"].(float64))
		return map[string]any{}
	})
	handle("GET "+api+"/queues", func(*http.Request, map[string]any) any {
		if f.limit < 0 {
			return map[string]any{"queues": []any{}}
		}
		return map[string]any{"queues": []any{map[string]any{"name": limited, "max_gpus": f.limit}}}
	})
	handle("POST "+api+"/tokens", func(*http.Request, map[string]any) any {
		id := fmt.Sprintf("tok_%d", len(f.tokens)+1)
		f.tokens["secret-"+id] = id
		return map[string]any{"token_id": id, "token": "secret-" + id}
	})
	handle("DELETE "+api+"/tokens/{id}", func(r *http.Request, _ map[string]any) any {
		delete(f.tokens, "secret-"+r.PathValue("id"))
		return map[string]any{}
	})
	handle("GET /v1/me", func(r *http.Request, _ map[string]any) any {
		if f.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] == "" {
			return http.StatusUnauthorized
		}
		return map[string]any{}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return f, procs.NewREST(procs.Info{Gateway: procs.Component{URL: s.URL}})
}

// set changes a job, as the cluster does.
func (f *fake) set(id string, fields map[string]any) {
	f.revision++
	maps.Copy(f.jobs[id], fields)
	f.jobs[id]["revision"] = f.revision
}

// tamper changes the state of the cluster.
func (f *fake) tamper(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}
