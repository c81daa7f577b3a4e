package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/uploads"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// uploadStore takes uploads. They have no RPC: the gateway writes the archive itself.
type uploadStore struct {
	keeper *uploads.Keeper // nil: there is no archive

	mu sync.Mutex
	// busy counts the parts of uploads that are in memory, by tenant.
	busy map[string]int
	all  int
}

// mostUploads is how many parts of uploads a gateway takes at a time, mostOfTenant how many of one tenant: slow callers of one
// tenant leave room for the others.
const mostUploads, mostOfTenant = 8, 5

// begin takes a slot for a part of an upload of a tenant, if there is one.
func (u *uploadStore) begin(tenant string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == mostUploads || u.busy[tenant] == mostOfTenant {
		return false
	}
	u.all++
	u.busy[tenant]++
	return true
}

func (u *uploadStore) end(tenant string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all--
	if u.busy[tenant]--; u.busy[tenant] == 0 {
		delete(u.busy, tenant)
	}
}

func openUploads(config Config) (*uploadStore, error) {
	u := &uploadStore{busy: map[string]int{}}
	if config.CheckpointArchive.URL == "" {
		return u, nil
	}
	store, err := archive.Open(config.CheckpointArchive.URL, config.CheckpointArchive.Access)
	if err != nil {
		return nil, fmt.Errorf("checkpoint_archive: %w", err)
	}
	u.keeper = uploads.NewKeeper(uploads.Config{Store: store, Bytes: config.UploadBytes, Keep: config.UploadKeep})
	return u, nil
}

func uploadRoute(path, summary string) methods.Route {
	return methods.Route{Method: http.MethodPost, Path: prefix + path, Summary: summary, Code: http.StatusOK, Choice: true}
}

var (
	sumSchema  = object{"type": "string", "pattern": "^[0-9a-f]{64}$"}
	fileSchema = object{"type": "object", "required": []string{"path"}, "properties": object{
		"path": openapi.Text, "executable": object{"type": "boolean"}, "size": object{"type": "integer", "minimum": 0}, "pieces": list(sumSchema), "link": openapi.Text,
	}}
	treeSchema  = object{"type": "object", "required": []string{"files"}, "properties": object{"files": list(fileSchema)}}
	offerSchema = object{"type": "object", "properties": object{
		"upload": openapi.Text, "complete": object{"type": "boolean"}, "files": object{"type": "integer"}, "bytes": object{"type": "integer"},
		"missing": list(sumSchema), "missing_bytes": object{"type": "integer"},
	}}
)

// limitsEndpoint returns the endpoint that tells clients what they may send.
func limitsEndpoint() endpoint {
	number := object{"type": "integer"}
	return endpoint{
		own: get(prefix+"/uploads", "Show the limits of uploads", true), permissions: []string{auth.PermissionManage},
		serve: func(x *httpRequest) error {
			if x.server.uploads.keeper == nil {
				return errNoUploads
			}
			text, err := json.Marshal(x.server.uploads.keeper.Limits())
			if err != nil {
				return fmt.Errorf("encode limits: %w", err)
			}
			x.data(func(b []byte) []byte { return append(b, text...) })
			return nil
		},
		doc: openapi.Operation{Conflict: true, OutSchema: object{"type": "object", "properties": object{
			"max_bytes": number, "max_files": number, "piece_bytes": number, "pack_bytes": number, "keep_seconds": number,
		}}},
	}
}

func offerEndpoint() endpoint {
	return endpoint{
		own: uploadRoute("/uploads", "Offer the files of a working directory, and learn which pieces are missing"), permissions: []string{auth.PermissionManage},
		writes: true, most: uploads.MaxTree, serve: offerUpload, doc: openapi.Operation{InSchema: treeSchema, OutSchema: offerSchema, Conflict: true},
	}
}

func packEndpoint() endpoint {
	return endpoint{
		own: uploadRoute("/uploads/packs", "Send missing pieces of files"), permissions: []string{auth.PermissionManage},
		writes: true, most: uploads.MaxPack, serve: takePack, doc: openapi.Operation{
			InSchema: anything, OutSchema: object{"type": "object", "properties": object{"stored": object{"type": "integer"}}}, Conflict: true,
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

func offerUpload(x *httpRequest) error {
	return x.takeUpload(func(ctx context.Context, keeper *uploads.Keeper, body []byte) (any, error) {
		tree, err := uploads.ParseTree(body)
		if err != nil {
			return nil, err
		}
		id, lacks, err := keeper.Offer(ctx, x.caller.Tenant, tree)
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

func takePack(x *httpRequest) error {
	return x.takeUpload(func(ctx context.Context, keeper *uploads.Keeper, body []byte) (any, error) {
		stored, err := keeper.PutPack(ctx, x.caller.Tenant, body)
		return map[string]int{"stored": stored}, err
	})
}

// takeUpload reads a part of an upload, and answers with what take says.
func (x *httpRequest) takeUpload(take func(context.Context, *uploads.Keeper, []byte) (any, error)) error {
	u := x.server.uploads
	if u.keeper == nil {
		return errNoUploads
	}
	_, limit, err := x.prepare()
	if err != nil {
		return err
	}
	if !u.begin(x.caller.Tenant) {
		return &problem{
			http: http.StatusTooManyRequests, code: "RATE_LIMITED", retryAfter: 1,
			message: fmt.Sprintf("this gateway already takes %d parts of uploads, or %d of this tenant: try again", mostUploads, mostOfTenant),
		}
	}
	defer u.end(x.caller.Tenant)
	// A part has megabytes, and the line of a caller may be slow.
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(x.server.config.Timeouts.MaxRequest))
	body, err := x.body()
	if err != nil {
		return err
	}
	defer release(body)
	// A pack that has arrived is kept even if the caller is gone by then: it need not be sent again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), limit)
	defer cancel()
	answer, err := take(ctx, u.keeper, *body)
	if err != nil {
		return x.uploadProblem(err)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	x.data(func(b []byte) []byte { return append(b, text...) })
	return nil
}

var errNoUploads = &problem{
	http: http.StatusConflict, code: "FAILED_PRECONDITION",
	message: "this cluster takes no uploads: they are kept in the archive of checkpoints; set checkpoint_archive of the gateways and of the agents to the same one",
}

func (x *httpRequest) uploadProblem(err error) error {
	if why := uploads.Invalid(""); errors.As(err, &why) {
		return invalidBody([]wire.Fault{{Message: string(why)}})
	}
	x.server.log.LogAttrs(x.r.Context(), slog.LevelError, "an upload cannot be kept in the archive", slog.String("tenant_id", x.tenant()), slog.Any("error", err))
	return &problem{http: http.StatusServiceUnavailable, code: "UNAVAILABLE", message: "the archive of uploads cannot be used; try again", retryAfter: 5}
}

// confirmUpload refuses a job whose upload is not in the archive. The upload is kept from then on.
func (x *httpRequest) confirmUpload(ctx context.Context, job *v1.SubmitJobRequest) error {
	id := job.GetCommandConfig().GetUpload()
	if id == "" || !uploads.ValidID(id) { // the coordinators say what is wrong with it
		return nil
	}
	keeper := x.server.uploads.keeper
	if keeper == nil {
		return errNoUploads
	}
	switch err := keeper.Confirm(ctx, x.caller.Tenant, id); {
	case errors.Is(err, uploads.ErrUnknown):
		return invalid("command_config.upload", "this tenant has no complete upload "+id+": send its files first (POST /uploads, or mind submit --upload DIR)")
	case err != nil:
		return x.uploadProblem(err)
	}
	return nil
}

// confirmUploads is confirmUpload for the jobs of a batch: one that is refused does not keep the others from being submitted.
func (x *httpRequest) confirmUploads(ctx context.Context, b *wire.Batch) error {
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
		err := x.confirmUpload(ctx, job)
		confirmed[id] = err == nil
		if p := (*problem)(nil); errors.As(err, &p) && len(p.details) > 0 {
			b.Items[i].Faults = p.details
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
