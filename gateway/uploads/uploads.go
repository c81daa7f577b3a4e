// Package uploads takes the working directories of jobs into the archive, piece by piece, and removes those that no job needs.
//
// Contract: a client offers the files of a directory, sends the pieces that are missing, and names the upload in a job. Confirm
// refuses a job whose upload is not complete. Package archive/uploads keeps the files.
//
// Guarantees: a tenant has no use of the pieces of another one. Few parts of uploads are in memory at a time, and fewer of one
// tenant. An upload that a job needs, by the word of the coordinators, is not removed.
package uploads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/uploads"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Handlers serve the paths of uploads. They have no RPC: the gateway writes the archive itself.
type Handlers struct {
	keeper *uploads.Keeper // nil: there is no archive
	jobs   v1.JobServiceClient
	log    *slog.Logger

	mu sync.Mutex
	// busy counts the parts of uploads that are in memory, by tenant.
	busy map[string]int
	all  int
}

// Config configures the handlers. The zero value of a number selects its default.
type Config struct {
	// URL of the archive, with Access; empty: no uploads are taken.
	URL    string
	Access archive.Access
	// Bytes limits the files of an upload together, and Keep is how long one that no job names is kept.
	Bytes int64
	Keep  time.Duration
	// Log gets what goes wrong while uploads are collected.
	Log *slog.Logger
}

// New returns handlers that ask coordinators which uploads jobs need.
func New(coordinators grpc.ClientConnInterface, config Config) (*Handlers, error) {
	h := &Handlers{jobs: v1.NewJobServiceClient(coordinators), log: config.Log, busy: map[string]int{}}
	if config.URL == "" {
		return h, nil
	}
	store, err := archive.Open(config.URL, config.Access)
	if err != nil {
		return nil, fmt.Errorf("checkpoint_archive: %w", err)
	}
	h.keeper = uploads.NewKeeper(uploads.Config{Store: store, Bytes: config.Bytes, Keep: config.Keep})
	return h, nil
}

// most is how many parts of uploads a gateway takes at a time, mostOfTenant how many of one tenant: slow callers of one tenant
// leave room for the others.
const most, mostOfTenant = 8, 5

// begin takes a slot for a part of an upload of a tenant, if there is one.
func (h *Handlers) begin(tenant string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == most || h.busy[tenant] == mostOfTenant {
		return false
	}
	h.all++
	h.busy[tenant]++
	return true
}

func (h *Handlers) end(tenant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all--
	if h.busy[tenant]--; h.busy[tenant] == 0 {
		delete(h.busy, tenant)
	}
}

// Endpoints are those of uploads: what may be sent, the offer of a working directory, and its pieces.
func (h *Handlers) Endpoints() []rest.Endpoint {
	return []rest.Endpoint{h.limitsEndpoint(), h.offerEndpoint(), h.packEndpoint()}
}

func uploadRoute(path, summary string) methods.Route {
	return methods.Route{Method: http.MethodPost, Path: rest.Prefix + path, Summary: summary, Code: http.StatusOK, Choice: true}
}

var (
	sumSchema  = openapi.Object{"type": "string", "pattern": "^[0-9a-f]{64}$"}
	fileSchema = openapi.Object{"type": "object", "required": []string{"path"}, "properties": openapi.Object{
		"path": openapi.Text, "executable": openapi.Object{"type": "boolean"}, "size": openapi.Object{"type": "integer", "minimum": 0}, "pieces": openapi.List(sumSchema), "link": openapi.Text,
	}}
	treeSchema  = openapi.Object{"type": "object", "required": []string{"files"}, "properties": openapi.Object{"files": openapi.List(fileSchema)}}
	offerSchema = openapi.Object{"type": "object", "properties": openapi.Object{
		"upload": openapi.Text, "complete": openapi.Object{"type": "boolean"}, "files": openapi.Object{"type": "integer"}, "bytes": openapi.Object{"type": "integer"},
		"missing": openapi.List(sumSchema), "missing_bytes": openapi.Object{"type": "integer"},
	}}
)

// limitsEndpoint returns the endpoint that tells clients what they may send.
func (h *Handlers) limitsEndpoint() rest.Endpoint {
	number := openapi.Object{"type": "integer"}
	return rest.Endpoint{
		Own: rest.Get(rest.Prefix+"/uploads", "Show the limits of uploads", true), Permissions: []string{auth.PermissionManage},
		Serve: func(x *rest.Request) error {
			if h.keeper == nil {
				return errNoUploads
			}
			text, err := json.Marshal(h.keeper.Limits())
			if err != nil {
				return fmt.Errorf("encode limits: %w", err)
			}
			x.Data(func(b []byte) []byte { return append(b, text...) })
			return nil
		},
		Doc: openapi.Operation{Conflict: true, OutSchema: openapi.Object{"type": "object", "properties": openapi.Object{
			"max_bytes": number, "max_files": number, "piece_bytes": number, "pack_bytes": number, "keep_seconds": number,
		}}},
	}
}

func (h *Handlers) offerEndpoint() rest.Endpoint {
	return rest.Endpoint{
		Own: uploadRoute("/uploads", "Offer the files of a working directory, and learn which pieces are missing"), Permissions: []string{auth.PermissionManage},
		Writes: true, Most: uploads.MaxTree, Serve: h.offerUpload, Doc: openapi.Operation{InSchema: treeSchema, OutSchema: offerSchema, Conflict: true},
	}
}

func (h *Handlers) packEndpoint() rest.Endpoint {
	return rest.Endpoint{
		Own: uploadRoute("/uploads/packs", "Send missing pieces of files"), Permissions: []string{auth.PermissionManage},
		Writes: true, Most: uploads.MaxPack, Serve: h.takePack, Doc: openapi.Operation{
			InSchema: openapi.Anything, OutSchema: openapi.Object{"type": "object", "properties": openapi.Object{"stored": openapi.Object{"type": "integer"}}}, Conflict: true,
		},
	}
}

// offered is the answer to an offer.
type offered struct {
	Upload       string   `json:"upload"`
	Complete     bool     `json:"complete"`
	Files        int      `json:"files"`
	Bytes        int64    `json:"bytes"`
	Missing      []string `json:"missing"`
	MissingBytes int64    `json:"missing_bytes"`
}

func (h *Handlers) offerUpload(x *rest.Request) error {
	return h.takeUpload(x, func(ctx context.Context, keeper *uploads.Keeper, body []byte) (any, error) {
		tree, err := uploads.ParseTree(body)
		if err != nil {
			return nil, err
		}
		id, lacks, err := keeper.Offer(ctx, x.Caller.Tenant, tree)
		if err != nil {
			return nil, err
		}
		answer := offered{Upload: id, Complete: len(lacks) == 0, Files: len(tree.Files), Bytes: tree.Bytes(), Missing: make([]string, 0, len(lacks))}
		for _, need := range lacks {
			answer.Missing = append(answer.Missing, need.Sum)
			answer.MissingBytes += need.Size
		}
		return answer, nil
	})
}

func (h *Handlers) takePack(x *rest.Request) error {
	return h.takeUpload(x, func(ctx context.Context, keeper *uploads.Keeper, body []byte) (any, error) {
		stored, err := keeper.PutPack(ctx, x.Caller.Tenant, body)
		return map[string]int{"stored": stored}, err
	})
}

// takeUpload reads a part of an upload, and answers with what take says.
func (h *Handlers) takeUpload(x *rest.Request, take func(context.Context, *uploads.Keeper, []byte) (any, error)) error {
	if h.keeper == nil {
		return errNoUploads
	}
	_, limit, err := x.Prepare()
	if err != nil {
		return err
	}
	if !h.begin(x.Caller.Tenant) {
		return &rest.Problem{
			HTTP: http.StatusTooManyRequests, Code: "RATE_LIMITED", RetryAfter: 1,
			Message: fmt.Sprintf("this gateway already takes %d parts of uploads, or %d of this tenant: try again", most, mostOfTenant),
		}
	}
	defer h.end(x.Caller.Tenant)
	// A part has megabytes, and the line of a caller may be slow.
	_ = http.NewResponseController(x.W).SetReadDeadline(time.Now().Add(x.Server.Timeouts.MaxRequest))
	body, err := x.Body()
	if err != nil {
		return err
	}
	defer rest.Release(body)
	// A pack that has arrived is kept even if the caller is gone by then: it need not be sent again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.R.Context()), limit)
	defer cancel()
	answer, err := take(ctx, h.keeper, *body)
	if err != nil {
		return problem(x, err)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	x.Data(func(b []byte) []byte { return append(b, text...) })
	return nil
}

var errNoUploads = &rest.Problem{
	HTTP: http.StatusConflict, Code: "FAILED_PRECONDITION",
	Message: "this cluster takes no uploads: they are kept in the archive of checkpoints; set checkpoint_archive of the gateways and of the agents to the same one",
}

func problem(x *rest.Request, err error) error {
	if why := uploads.Invalid(""); errors.As(err, &why) {
		return rest.InvalidBody([]wire.Fault{{Message: string(why)}})
	}
	x.Server.Log.LogAttrs(x.R.Context(), slog.LevelError, "an upload cannot be kept in the archive", slog.String("tenant_id", x.Tenant()), slog.Any("error", err))
	return &rest.Problem{HTTP: http.StatusServiceUnavailable, Code: "UNAVAILABLE", Message: "the archive of uploads cannot be used; try again", RetryAfter: 5}
}

// Confirm refuses a job whose upload is not in the archive. The upload is kept from then on.
func (h *Handlers) Confirm(ctx context.Context, x *rest.Request, job *v1.SubmitJobRequest) error {
	id := job.GetCommandConfig().GetUpload()
	if id == "" || !uploads.ValidID(id) { // the coordinators say what is wrong with it
		return nil
	}
	keeper := h.keeper
	if keeper == nil {
		return errNoUploads
	}
	switch err := keeper.Confirm(ctx, x.Caller.Tenant, id); {
	case errors.Is(err, uploads.ErrUnknown):
		return rest.Invalid("command_config.upload", "this tenant has no complete upload "+id+": send its files first (POST /uploads, or mind submit --upload DIR)")
	case err != nil:
		return problem(x, err)
	}
	return nil
}

// ConfirmAll is Confirm for the jobs of a batch: one that is refused does not keep the others from being submitted.
func (h *Handlers) ConfirmAll(ctx context.Context, x *rest.Request, b *wire.Batch) error {
	jobs, sent := b.Request.GetJobs(), b.Request.GetJobs()[:0]
	confirmed := map[string]bool{} // the jobs of a batch often have the same one
	for i := range b.Items {
		if len(b.Items[i].Faults) > 0 {
			continue
		}
		job := jobs[0]
		jobs = jobs[1:]
		id := job.GetCommandConfig().GetUpload()
		if confirmed[id] {
			sent = append(sent, job)
			continue
		}
		err := h.Confirm(ctx, x, job)
		confirmed[id] = err == nil
		if p := (*rest.Problem)(nil); errors.As(err, &p) && len(p.Details) > 0 {
			b.Items[i].Faults = p.Details
			continue
		}
		if err != nil {
			return err
		}
		sent = append(sent, job)
	}
	b.Request.Jobs = sent
	return nil
}
