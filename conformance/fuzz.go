package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/conformance/document"
)

// FuzzOptions configures Fuzz.
type FuzzOptions struct {
	// Seed is the seed of the requests. Equal seeds draw equal requests, except for ids of fixtures.
	Seed uint64
	// Requests is the number of requests to send.
	Requests int
}

// FuzzReport is the result of Fuzz.
type FuzzReport struct {
	Seed     uint64
	Requests int
	Codes    map[int]int
	// Accepted counts the requests that passed all checks, by endpoint.
	Accepted map[string]int
	// MemoryBefore and MemoryAfter are the memory of the gateway before and after the requests, in bytes; 0: unknown.
	MemoryBefore, MemoryAfter int64
	Broken                    []string
}

// MemoryGrowth is how much the gateway's memory may grow. The limit does not depend on the number of requests, because
// the gateway must not keep anything of a request that has ended.
const MemoryGrowth = 512 << 20

// forbidden lists operations that would damage the cluster, or do not end.
var forbidden = []string{
	"DELETE /nodes/{id}", "DELETE /cluster/nodes/{id}", "POST /nodes/{id}/drain", "POST /cluster/nodes/{id}/drain", "GET /events",
}

// withoutEnvelope lists the types of successful answers that have no envelope: streams, and checkpoints.
var withoutEnvelope = []string{"text/event-stream", "application/x-tar"}

// Fuzz sends requests that are drawn from the OpenAPI document and then damaged. No answer may be a 500, undocumented,
// or without the envelope, and the gateway must neither die nor grow without bound. Fuzz returns an error if it could
// not continue.
func Fuzz(ctx context.Context, t Target, o FuzzOptions) (report *FuzzReport, err error) {
	d, err := loadDocument(ctx, t)
	if err != nil {
		return nil, err
	}
	own, err := newParty(ctx, t, slices.Contains(d.Names(prefix), "POST /evaluations"))
	if err != nil {
		return nil, fmt.Errorf("making a tenant to fuzz with: %w", err)
	}
	defer func() {
		err = errors.Join(err, own.leaveCores(context.WithoutCancel(ctx)), cancelAll(context.WithoutCancel(ctx), t, own))
	}()
	r := rand.New(rand.NewPCG(o.Seed, 0))
	g := &document.Generator{
		Rand: r, Document: d,
		IDs: []string{own.job, own.checkpoint, own.node, own.evaluation, own.tenant, own.core, own.execution, own.decision, "default", "CUSTOM", "job_0000000000000", "nothing"},
	}
	report = &FuzzReport{Seed: o.Seed, Codes: map[int]int{}, Accepted: map[string]int{}, MemoryBefore: memory(ctx, t)}
	names := slices.DeleteFunc(d.Names(prefix), func(n string) bool { return slices.Contains(forbidden, n) })
	tokens := []string{own.all, own.all, own.all, t.Token, own.only["scaimind:view"], own.only["scaimind:manage"], own.only["scaicore:manage"]}
	for range o.Requests {
		name := names[r.IntN(len(names))]
		method, template, _ := strings.Cut(name, " ")
		if _, ok := d.Operation(method, prefix+template); ok {
			template = prefix + template
		}
		op, _ := d.Operation(method, template)
		var example map[string]any
		if i := slices.IndexFunc(endpoints, func(e endpoint) bool { return e.name == name }); i >= 0 && endpoints[i].body != nil {
			example, _ = endpoints[i].body(own).(map[string]any)
		}
		drawn := g.Request(op, template, example)
		q := request{method: method, path: drawn.Path, query: drawn.Query, header: drawn.Header}
		if drawn.Body != nil {
			q.body = drawn.Body
		}
		if r.IntN(20) > 0 {
			q.token = tokens[r.IntN(len(tokens))]
		}
		a, err := do(ctx, t, q)
		if err != nil {
			return report, fmt.Errorf("seed %d, request %d, %s %s?%s: %w", o.Seed, report.Requests, method, q.path, q.query, err)
		}
		report.Requests++
		report.Codes[a.code]++
		if a.code < 300 {
			report.Accepted[name]++
		}
		if what := judge(d, method, template, q, a); what != "" {
			report.Broken = append(report.Broken, fmt.Sprintf("seed %d, request %d: %s %s?%s %s: %s", o.Seed, report.Requests, method, q.path, q.query, shown(q.body), what))
		}
	}
	if a, err := t.do(ctx, request{method: "GET", path: "/health/ready"}); err != nil || a.code != http.StatusOK {
		report.Broken = append(report.Broken, "the gateway is no longer ready")
	}
	report.MemoryAfter = memory(ctx, t)
	if report.MemoryAfter > report.MemoryBefore+MemoryGrowth {
		report.Broken = append(report.Broken, fmt.Sprintf("the gateway grew from %d to %d bytes", report.MemoryBefore, report.MemoryAfter))
	}
	return report, nil
}

func do(ctx context.Context, t Target, q request) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return t.do(ctx, q)
}

// judge returns a sentence about the first fault of an answer; "" if there is none.
func judge(d *document.Document, method, template string, q request, a *answer) string {
	switch {
	case a.code == http.StatusInternalServerError:
		return "HTTP 500: " + clip(a.raw)
	case a.code == http.StatusNotFound && strings.HasPrefix(a.message, "there is no /"), a.code == http.StatusMethodNotAllowed:
		return "" // the drawn id led to another path
	}
	if err := d.Answers(method, template, a.code, a.raw); err != nil {
		return err.Error()
	}
	if strings.HasPrefix(template, "/v1/") && !slices.Contains(withoutEnvelope, a.header.Get("Content-Type")) {
		return a.enveloped()
	}
	return ""
}

func shown(body any) string {
	if raw, ok := body.([]byte); ok {
		return clip(raw)
	}
	return ""
}

// cancelAll cancels all jobs of the tenant, which the random requests submitted.
func cancelAll(ctx context.Context, t Target, p *party) error {
	for {
		var page struct {
			Jobs []struct {
				ID     string `json:"job_id"`
				Status string `json:"status"`
			}
			Next string `json:"next_page_token"`
		}
		stopped := 0
		for token := ""; ; token = page.Next {
			page.Next, page.Jobs = "", nil
			if err := p.get(ctx, "/jobs?page_size=100&page_token="+token, &page); err != nil {
				return err
			}
			for _, j := range page.Jobs {
				if slices.Contains([]string{"COMPLETED", "FAILED", "CANCELLED", "PREEMPTED"}, j.Status) {
					continue
				}
				a, err := t.do(ctx, request{method: "POST", path: prefix + "/jobs/" + j.ID + "/cancel", token: p.all})
				if err != nil {
					return err
				}
				if a.code == http.StatusOK {
					stopped++
				}
			}
			if page.Next == "" {
				break
			}
		}
		if stopped == 0 {
			return nil
		}
	}
}

// memory returns the memory of the gateway, as it reports it.
func memory(ctx context.Context, t Target) int64 {
	a, err := t.do(ctx, request{method: "GET", path: "/metrics"})
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(a.raw)) {
		if value, ok := strings.CutPrefix(line, "process_resident_memory_bytes "); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int64(n)
		}
	}
	return 0
}

// Print writes the report. Its last line has the totals.
func (f *FuzzReport) Print(w io.Writer) error {
	for _, what := range f.Broken {
		fmt.Fprintln(w, "BROKEN:", what)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Accepted)) {
		fmt.Fprintf(w, "accepted %4d  %s\n", f.Accepted[name], name)
	}
	fmt.Fprintf(w, "seed=%d requests=%d", f.Seed, f.Requests)
	for _, code := range slices.Sorted(maps.Keys(f.Codes)) {
		fmt.Fprintf(w, " http_%d=%d", code, f.Codes[code])
	}
	_, err := fmt.Fprintf(w, " memory_before_mb=%d memory_after_mb=%d broken=%d\n", f.MemoryBefore>>20, f.MemoryAfter>>20, len(f.Broken))
	return err
}
