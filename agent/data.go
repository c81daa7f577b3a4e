package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/datacache"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// What a task directory holds of its data: a folder with one for each source, and what they are.
const (
	dataDir      = "data"
	dataManifest = "data.json"
)

// failureData is the name of the ErrorType.
var failureData = v1.ErrorType_DATA_FETCH.String()

// Data says where the data of jobs may come from, and how much of it the node keeps. The zero value keeps 100 GiB below the
// data directory.
type Data struct {
	// CacheDir is the folder of the cache; empty: "datacache" in the data directory. One agent at a time uses it.
	CacheDir string
	// CacheBytes bounds it; 0: 100 GiB.
	CacheBytes int64
	// Roots are the folders in which local sources and models may lie, beside what the tenant's own jobs wrote; empty: none.
	Roots []string
	// Hosts are those that data may be fetched from: names, *.SUFFIX, addresses, networks, or * for all. Empty: all but this
	// machine and link-local addresses.
	Hosts []string
	// HubURL and HubToken are for hf:// sources; empty: https://huggingface.co, without a token.
	HubURL, HubToken string
	// DriveURL and AtlasURL are for scaidrive:// and scaiatlas:// sources; empty: there are none.
	DriveURL, AtlasURL string
	// S3 is the object store of s3:// sources.
	S3 datacache.S3
	// TellEvery is how often the coordinators are told how far a transfer is; 0: every 2 s.
	TellEvery time.Duration
}

func (c Config) dataCache() datacache.Config {
	d := c.Data
	return datacache.Config{
		Node: c.NodeID, Dir: cmp.Or(d.CacheDir, filepath.Join(c.DataDir, "datacache")), Capacity: d.CacheBytes, Roots: d.Roots,
		// What jobs wrote may be the data of others of their tenant; the agent's state may not.
		Hidden: []string{c.DataDir}, Own: func(tenant string) []string { return []string{c.outputsOf(tenant)} },
		Hosts: d.Hosts, Hub: datacache.Service{URL: d.HubURL, Token: d.HubToken},
		Drive: datacache.Service{URL: d.DriveURL}, Atlas: datacache.Service{URL: d.AtlasURL}, S3: d.S3, Logger: c.Logger,
	}
}

// openData opens the data cache.
func (a *agent) openData() (err error) {
	cfg := a.cfg.dataCache()
	cfg.Logger = a.log
	// A link that names it must not lead around what is hidden.
	if err = os.MkdirAll(filepath.Join(a.cfg.DataDir, outputsFolder), 0o755); err != nil {
		return fmt.Errorf("make the folder of outputs: %w", err)
	}
	if a.data, err = datacache.Open(cfg); err != nil {
		return err
	}
	a.cfg.Metrics.MustRegister(dataCollector{a.data})
	return nil
}

// taskData is what a task has of its sources, in their order, and of its model.
type taskData struct {
	sources []*v1.DataSource
	found   []*datacache.Data
	model   *taskModel // nil: it was not fetched
}

// enqueue lets a task wait for its turn to be launched, as soon as its data is here. It runs on the owner's goroutine.
func (a *agent) enqueue(t *task) {
	if t.data != nil || len(t.spec.GetJob().GetDataConfig().GetSources()) == 0 && !a.needsModel(t.spec) {
		a.queue = append(a.queue, t)
		return
	}
	if t.cancelData != nil {
		return // under way
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.cancelData = cancel
	spec := t.spec
	// It takes its time, in which the job is seen to be prepared. It takes no turn from those who need no data.
	a.outbox.add(t.progress(&v1.Report{Body: &v1.Report_Starting{Starting: &v1.TaskStarting{}}}, time.Time{}))
	a.minders.Go(func() {
		defer cancel()
		go func() {
			select {
			case <-a.over:
				cancel() // the next agent goes on where this one stops
			case <-ctx.Done():
			}
		}()
		data, err := a.fetchData(ctx, t.key, spec)
		a.post(func() { a.dataCame(t, data, err) })
	})
}

// dataCame goes on with a task whose data is here, or will not be.
func (a *agent) dataCame(t *task, data *taskData, err error) {
	t.cancelData = nil
	switch {
	case t.state != queued || t.stop != nil:
		a.data.Release(t.key.name()) // it was stopped meanwhile, and has ended
	case err != nil:
		a.log.Warn("the data of a task was not fetched", "job", t.key.job, "attempt", t.key.attempt, "rank", t.key.rank, "error", err)
		failure := failureData
		if errors.As(err, new(noModel)) {
			failure = failureModel
		}
		a.neverRan(t, shim.Exit{Code: -1, Failure: failure, Message: err.Error()})
	default:
		t.data = data
		a.queue = append(a.queue, t)
		a.launchNext()
	}
}

// fetchData brings the model and all sources of a task to the node, one after the other.
func (a *agent) fetchData(ctx context.Context, k key, spec *v1.TaskSpec) (*taskData, error) {
	telling, done := context.WithCancel(ctx)
	defer done()
	a.minders.Go(func() { a.tellTransfers(telling, k) })
	credentials := credentialsOf(spec.GetCredentials(), spec.GetJob().GetTrainingConfig().GetEnvironment())
	fetch := func(r datacache.Request) (*datacache.Data, error) {
		began := time.Now()
		r.Tenant, r.Credentials, r.Owner = spec.GetTenantId(), credentials, k.name()
		data, err := a.data.Fetch(ctx, r)
		switch {
		case err == nil:
			a.log.Info(r.What+" of a task is here", "job", k.job, "attempt", k.attempt, "rank", k.rank, "bytes", data.Size, "took", time.Since(began).Round(time.Millisecond))
		case ctx.Err() != nil:
			return nil, errors.New("stopped while its data was fetched")
		}
		return data, err
	}
	out := &taskData{sources: spec.GetJob().GetDataConfig().GetSources()}
	var err error
	if out.model, err = a.fetchModel(spec, fetch); err != nil {
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

// credentialsOf collects what a job may show to get at its data.
func credentialsOf(tokens *v1.DataCredentials, env map[string]string) datacache.Credentials {
	return datacache.Credentials{
		ScaiDrive: tokens.GetScaidriveToken(), ScaiAtlas: tokens.GetScaiatlasToken(),
		HubToken: env["HF_TOKEN"], AWSKeyID: env["AWS_ACCESS_KEY_ID"], AWSSecret: env["AWS_SECRET_ACCESS_KEY"], AWSToken: env["AWS_SESSION_TOKEN"],
	}
}

// manifestEntry is what the process is told of one source.
type manifestEntry struct {
	Path string `json:"path"`
	// Dir holds the files.
	Dir string `json:"dir"`
	// Local: it is where it always was, and not a copy.
	Local bool `json:"local"`
	// Files are relative to Dir; null when there are too many to list.
	Files     []string `json:"files"`
	FileCount *int     `json:"file_count"`
	SizeBytes *int64   `json:"size_bytes"`
	Digest    string   `json:"digest,omitempty"`
	// Source is the whole of what the job says of it.
	Source json.RawMessage `json:"source"`
}

// newEntry describes what was found.
func newEntry(path, dir string, data *datacache.Data, source proto.Message) (manifestEntry, error) {
	said, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(source)
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

// write lays out the data in a task directory, which may yet be renamed to final.
func (d *taskData) write(dir, final string) error {
	type indexed struct {
		Index int `json:"index"`
		manifestEntry
	}
	entries := make([]indexed, len(d.sources))
	if err := os.Mkdir(filepath.Join(dir, dataDir), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the folder of the data: %w", err)
	}
	for i, data := range d.found {
		name := filepath.Join(dataDir, strconv.Itoa(i))
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
		err = os.WriteFile(filepath.Join(dir, dataManifest), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the manifest of the data: %w", err)
	}
	return nil
}

// linkData makes a folder with the files of a source.
func linkData(data *datacache.Data, at string) error {
	if err := os.RemoveAll(at); err != nil { // what an earlier try left
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

// setDataEnv tells the process where its data is.
func setDataEnv(env *environment, dir string, data *taskData) {
	if data != nil {
		env.set("MIND_DATA_DIR", filepath.Join(dir, dataDir))
		env.set("MIND_DATA_MANIFEST", filepath.Join(dir, dataManifest))
	}
}

// maxHeld is more sources than a job may have.
const maxHeld = 10_000

// holdData holds what a task uses that an earlier agent launched.
func (a *agent) holdData(t *task) {
	names, _ := taskfile.Names(filepath.Join(t.dir, dataDir), maxHeld) // most have none
	links := []string{filepath.Join(t.dir, modelDir)}
	for _, name := range names {
		links = append(links, filepath.Join(t.dir, dataDir, name))
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			a.data.Hold(t.key.name(), to)
		}
	}
}
