package inputs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/datacache"
	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/api/model"
	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
)

// The entries of a task directory for its data.
const (
	// Folder has a folder for each source.
	Folder = "data"
	// Manifest is a file that describes the sources.
	Manifest = "data.json"
)

// Config configures where the data of jobs may come from, and how much of it the node caches. The zero value caches 100
// GiB below the data directory.
type Config struct {
	// CacheDir is the directory of the cache; empty: "datacache" in the data directory. Only one agent may use it at a
	// time.
	CacheDir string
	// CacheBytes limits the cache; 0: 100 GiB.
	CacheBytes int64
	// Roots are the directories of local sources and models, beside the outputs of the tenant's own jobs; empty: none.
	Roots []string
	// As runs a function with the rights on files of the user of a tenant's jobs; nil: jobs have the user of the agent.
	As func(tenant string, f func()) error `json:"-"`
	// Hosts are the hosts from which data may be fetched: names, *.SUFFIX, addresses, networks, or * for all. Empty: all
	// except this machine and link-local addresses.
	Hosts []string
	// HubURL and HubToken are for hf:// sources; empty: https://huggingface.co, without a token.
	HubURL, HubToken string
	// DriveURL and AtlasURL are for scaidrive:// and scaiatlas:// sources; empty: there are none.
	DriveURL, AtlasURL string
	// S3 is the object store of s3:// sources.
	S3 sources.S3
	// Archive stores checkpoints that are no longer on their nodes; nil: there is none.
	Archive archive.Store
	// Archives are the URLs of the node's archives, in which no s3:// source may lie.
	Archives []string
	// Private are directories that no job may read through its agent, apart from the outputs of the tenant's own jobs.
	Private *private.Paths
	// Peers reaches the agents of other nodes; nil: they are not asked.
	Peers Peers
	// TellEvery is how often the progress of a transfer is reported; 0: every 2 s.
	TellEvery time.Duration
}

// Inputs brings the data of jobs to the node.
type Inputs struct {
	cfg      Config
	node     string
	cache    *datacache.Cache
	log      *slog.Logger
	unpacked string // see unpackedDir
	// agreements has the agreements of the attempts whose rank 0 is on this node.
	agreements *agreements
}

// Validate joins all faults of the configuration of an agent with this data directory.
func (c Config) Validate(dataDir string) error { return c.cache("", dataDir, nil).Validate() }

func (c Config) cache(node, dataDir string, own func(tenant string) string) datacache.Config {
	return datacache.Config{
		Node: node, Dir: c.Cache(dataDir), Capacity: c.CacheBytes,
		Sources: sources.Config{
			// Outputs of jobs may be the data of other jobs of the tenant; the agent's state may not.
			Roots: c.Roots, As: c.As, Private: c.Private, Own: func(tenant string) []string { return []string{own(tenant)} },
			Hosts: c.Hosts, Hub: sources.Service{URL: c.HubURL, Token: c.HubToken},
			Drive: sources.Service{URL: c.DriveURL}, Atlas: sources.Service{URL: c.AtlasURL}, S3: c.S3, Archive: c.Archive, Archives: c.Archives,
		},
	}
}

// Open opens the data cache of a node. own returns the folder of a tenant's own outputs.
func Open(cfg Config, node, dataDir string, own func(tenant string) string, log *slog.Logger) (*Inputs, error) {
	cached := cfg.cache(node, dataDir, own)
	cached.Logger = log
	cache, err := datacache.Open(cached)
	if err != nil {
		return nil, err
	}
	in := &Inputs{cfg: cfg, node: node, cache: cache, log: log, unpacked: filepath.Join(dataDir, unpackedDir), agreements: openAgreements(dataDir, log)}
	if err := os.RemoveAll(in.unpacked); err != nil { // of tasks that an earlier agent did not launch
		return nil, fmt.Errorf("remove unpacked uploads: %w", err)
	}
	return in, nil
}

// Data is the fetched data of a task: its sources, in order, its model, and the checkpoint to resume from.
type Data struct {
	sources []*v1.DataSource
	found   []*datacache.Data
	model   *taskModel // nil: it was not fetched
	resume  *resume    // nil: nothing was decided about a checkpoint to resume from
	upload  *upload    // nil: the job has none
	// onlyResume: the task has neither sources nor a model to lay out.
	onlyResume bool
}

// Cache returns the directory of the cache of an agent.
func (c Config) Cache(dataDir string) string {
	return cmp.Or(c.CacheDir, filepath.Join(dataDir, "datacache"))
}

// Dirs returns the directories and files in which the data of a task lies: its own directory has links to them. fetched are in
// the cache; local are where the job has named them, without links when they were found.
func (d *Data) Dirs() (fetched, local []string) {
	if d == nil {
		return nil, nil
	}
	all := slices.Clone(d.found)
	if d.model != nil {
		all = append(all, d.model.found)
	}
	if d.resume != nil && d.resume.found != nil {
		all = append(all, d.resume.found)
	}
	for _, data := range all {
		if data.Local {
			local = append(local, data.Dir)
		} else {
			fetched = append(fetched, data.Dir)
		}
	}
	return fetched, local
}

// Needed reports whether a task has data to fetch, or to look for on a file system that may be slow.
func (in *Inputs) Needed(id taskid.ID, spec *v1.TaskSpec) bool {
	return len(sourcesOf(spec.GetJob())) > 0 || uploadOf(spec) != "" || in.needsModel(spec) || in.needsResume(id, spec)
}

// sourcesOf returns the data sources of a job, or the datasets of an evaluation.
func sourcesOf(job *v1.SubmitJobRequest) []*v1.DataSource {
	sources := job.GetDataConfig().GetSources()
	for _, uri := range model.Datasets(job.GetEvaluationConfig()) {
		sources = append(sources, &v1.DataSource{Path: uri})
	}
	return sources
}

// Fetch brings the model and all sources of a task to the node, one after the other. It reports progress to tell. The
// fetched data is held for the task until Release, even after an error.
func (in *Inputs) Fetch(ctx context.Context, id taskid.ID, spec *v1.TaskSpec, tell func(*v1.TransferReport)) (*Data, error) {
	telling, done := context.WithCancel(ctx)
	var teller sync.WaitGroup
	defer teller.Wait()
	defer done()
	teller.Go(func() { in.tellTransfers(telling, id.Name(), tell) })
	credentials := CredentialsOf(spec.GetCredentials(), spec.GetJob().GetTrainingConfig().GetEnvironment())
	fetch := func(r datacache.Request) (*datacache.Data, error) {
		began := time.Now()
		r.Tenant, r.Credentials, r.Owner = spec.GetTenantId(), credentials, id.Name()
		data, err := in.cache.Fetch(ctx, r)
		switch {
		case err == nil:
			level := slog.LevelInfo
			if r.Object != nil { // one of many
				level = slog.LevelDebug
			}
			in.log.Log(ctx, level, r.What+" of a task is available", "job", id.Job, "attempt", id.Attempt, "rank", id.Rank, "bytes", data.Size, "took", time.Since(began).Round(time.Millisecond))
		case ctx.Err() != nil:
			return nil, errors.New("stopped while its data was being fetched")
		}
		return data, err
	}
	out := &Data{sources: sourcesOf(spec.GetJob())}
	out.onlyResume = len(out.sources) == 0 && !in.needsModel(spec)
	var err error
	if out.upload, err = in.fetchUpload(ctx, id, spec, fetch); err != nil {
		return nil, err
	}
	if out.model, err = in.fetchModel(ctx, spec, fetch); err != nil {
		return nil, err
	}
	if out.resume, err = in.fetchResume(ctx, id, spec, fetch); err != nil {
		return nil, err
	}
	for _, source := range out.sources {
		data, err := fetch(datacache.Request{Path: source.GetPath(), What: "data source"})
		if err != nil {
			return nil, err
		}
		out.found = append(out.found, data)
	}
	return out, nil
}

// Failure returns the ErrorType of an error of Fetch.
func Failure(err error) string {
	if errors.As(err, new(noModel)) {
		return v1.ErrorType_MODEL_NOT_FOUND.String()
	}
	return v1.ErrorType_DATA_FETCH.String()
}

// Release releases all data that is held for a task.
func (in *Inputs) Release(id taskid.ID) {
	in.agreements.forget(id)
	in.cache.Release(id.Name())
	if err := os.RemoveAll(filepath.Join(in.unpacked, id.Name())); err != nil {
		in.log.Error("cannot remove an unpacked upload", "task", id.Name(), "error", err)
	}
}

// Agree answers a task of another node in an agreement.
func (in *Inputs) Agree(ctx context.Context, req *v1.AgreeOnResumeRequest) (*v1.AgreeOnResumeResponse, error) {
	return in.agreements.ask(ctx, req)
}

// CredentialsOf collects the credentials of a job for its data.
func CredentialsOf(tokens *v1.DataCredentials, env map[string]string) sources.Credentials {
	return sources.Credentials{
		ScaiDrive: tokens.GetScaidriveToken(), ScaiAtlas: tokens.GetScaiatlasToken(),
		HubToken: env["HF_TOKEN"], AWSKeyID: env["AWS_ACCESS_KEY_ID"], AWSSecret: env["AWS_SECRET_ACCESS_KEY"], AWSToken: env["AWS_SESSION_TOKEN"],
	}
}

// manifestEntry describes one source to the process.
type manifestEntry struct {
	Path string `json:"path"`
	// Dir holds the files.
	Dir string `json:"dir"`
	// Local: it is used in place.
	Local bool `json:"local"`
	// Files are relative to Dir; null if there are too many to list.
	Files     []string `json:"files"`
	FileCount *int     `json:"file_count"`
	SizeBytes *int64   `json:"size_bytes"`
	Digest    string   `json:"digest,omitempty"`
	// Source is the job's complete entry for it.
	Source json.RawMessage `json:"source"`
}

// newEntry returns the manifest entry of a source.
func newEntry(path, dir string, data *datacache.Data, source proto.Message) (manifestEntry, error) {
	said, err := numbers.Marshal(source)
	if err != nil {
		return manifestEntry{}, fmt.Errorf("encode data source: %w", err)
	}
	e := manifestEntry{Path: path, Dir: dir, Local: data.Local, Files: data.Files, Digest: data.Digest, Source: said}
	if data.Count >= 0 {
		e.FileCount, e.SizeBytes = &data.Count, &data.Size
		if e.Files == nil {
			e.Files = []string{}
		}
	}
	return e, nil
}

// Write lays out the data in a task directory, which may later be renamed to final.
func (d *Data) Write(dir, final string) error {
	type indexed struct {
		Index int `json:"index"`
		manifestEntry
	}
	entries := make([]indexed, len(d.sources))
	if err := os.Mkdir(filepath.Join(dir, Folder), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the folder of the data: %w", err)
	}
	for i, data := range d.found {
		name := filepath.Join(Folder, strconv.Itoa(i))
		if err := linkData(data, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("lay out the data: %w", err)
		}
		e, err := newEntry(d.sources[i].GetPath(), filepath.Join(final, name), data, d.sources[i])
		if err != nil {
			return err
		}
		entries[i] = indexed{i, e}
	}
	manifest := map[string]any{"version": 1, "sources": entries}
	if d.model != nil {
		e, err := d.model.write(dir, final)
		if err != nil {
			return err
		}
		manifest["model"] = e
	}
	text, err := json.Marshal(manifest)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, Manifest), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the manifest of the data: %w", err)
	}
	return nil
}

// linkData makes a folder with the files of a source.
func linkData(data *datacache.Data, at string) error {
	if err := os.RemoveAll(at); err != nil { // left by an earlier try
		return err
	}
	info, err := os.Stat(data.Dir)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.Symlink(data.Dir, at)
	}
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	return os.Symlink(data.Dir, filepath.Join(at, data.Files[0]))
}

// maxHeld is more sources than a job may have.
const maxHeld = 10_000

// Hold holds the data of a task that an earlier agent launched.
func (in *Inputs) Hold(id taskid.ID, dir string) {
	names, _ := taskfile.Names(filepath.Join(dir, Folder), maxHeld) // most tasks have none
	links := []string{filepath.Join(dir, modelDir)}
	if name, err := taskfile.Names(filepath.Join(dir, resumeDir), 1); err == nil && len(name) == 1 {
		links = append(links, filepath.Join(dir, resumeDir, name[0]))
	}
	for _, name := range names {
		links = append(links, filepath.Join(dir, Folder, name))
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			in.cache.Hold(id.Name(), to)
		}
	}
}
