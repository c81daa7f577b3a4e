package inputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/datacache"
	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/api/model"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// modelDir is the folder of a task directory with a fetched model.
const modelDir = "model"

// noModel is the error for a model that does not exist, or that the job may not read. A broken transfer of a model
// counts as a failure of the job's data instead.
type noModel struct{ error }

// taskModel is the resolved model of a task.
type taskModel struct {
	ref   model.Ref
	found *datacache.Data
	said  proto.Message // the job's entry for it
}

// path returns the model path given to the process, for model files in a task directory.
func (m *taskModel) path(dir string) string {
	if m.found.Local {
		return m.found.Dir
	}
	return filepath.Join(dir, modelDir)
}

// write lays out a model in a task directory, which may later be renamed to final.
func (m *taskModel) write(dir, final string) (manifestEntry, error) {
	if !m.found.Local {
		if err := linkData(m.found, filepath.Join(dir, modelDir)); err != nil {
			return manifestEntry{}, fmt.Errorf("lay out the model: %w", err)
		}
	}
	at := m.path(final)
	if info, err := os.Stat(m.found.Dir); m.found.Local && err == nil && !info.IsDir() {
		at = filepath.Dir(at)
	}
	return newEntry(m.ref.Name, at, m.found, m.said)
}

// modelOf returns the source of a task's model. A model without a known location has no source.
func (in *Inputs) modelOf(spec *v1.TaskSpec) model.Ref {
	job := spec.GetJob()
	var ref model.Ref
	var err error
	switch {
	case job.GetCommandConfig() != nil:
	case job.GetEvaluationConfig() != nil:
		if job.GetEvaluationConfig().GetCheckpointId() == "" {
			ref, err = model.OfURI(spec.GetModelPath())
		}
	case job.GetTrainingConfig() != nil:
		ref, err = model.OfTraining(job.GetTrainingConfig().GetBaseModel())
	}
	if err != nil || ref.Default && !in.hubConfigured() {
		ref.Source = "" // an older coordinator accepted it, or bare names are not configured to be on the hub
	}
	return ref
}

// hubConfigured reports whether bare names are looked up on the hub: the operator has configured it.
func (in *Inputs) hubConfigured() bool { return in.cfg.HubURL != "" || in.cfg.HubToken != "" }

// needsModel reports whether a task has a model to fetch, or to look for on a file system that may be slow.
func (in *Inputs) needsModel(spec *v1.TaskSpec) bool {
	return spec.GetJob().GetEvaluationConfig() != nil || in.modelOf(spec).Source != ""
}

// fetchModel brings the model of a task to the node. It returns nil if there is none to fetch.
func (in *Inputs) fetchModel(ctx context.Context, spec *v1.TaskSpec, fetch func(datacache.Request) (*datacache.Data, error)) (*taskModel, error) {
	ref := in.modelOf(spec)
	if ref.Source == "" {
		if spec.GetJob().GetEvaluationConfig() != nil {
			return in.fetchScored(ctx, spec, fetch)
		}
		return nil, nil
	}
	found, err := fetch(datacache.Request{Path: ref.Source, What: "model", OneFormat: !ref.AllFormats})
	switch {
	case sources.Missing(err) && ref.Default:
		return nil, noModel{fmt.Errorf("%w; if the program finds %s by itself, set base_model.source to \"program\"", err, ref.Name)}
	case sources.Missing(err):
		return nil, noModel{err}
	case err != nil:
		return nil, err
	}
	said := proto.Message(spec.GetJob().GetTrainingConfig().GetBaseModel())
	if e := spec.GetJob().GetEvaluationConfig(); e != nil {
		said = e
	}
	return &taskModel{ref, found, said}, nil
}

// fetchScored fetches the checkpoint that an evaluation scores. It returns nil if the node has it already.
func (in *Inputs) fetchScored(ctx context.Context, spec *v1.TaskSpec, fetch func(datacache.Request) (*datacache.Data, error)) (*taskModel, error) {
	point := spec.GetModelCheckpoint()
	if !in.isElsewhere(point) || observe.Verify(ctx, point) == nil {
		return nil, in.lacksCheckpoint(spec)
	}
	found, _, why, err := in.elsewhere(ctx, point, fetch)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, noModel{why}
	}
	return &taskModel{model.Ref{Name: point.GetPath()}, found, spec.GetJob().GetEvaluationConfig()}, nil
}

// lacksCheckpoint returns the reason why this node cannot score a checkpoint, or nil if it can.
func (in *Inputs) lacksCheckpoint(spec *v1.TaskSpec) error {
	path, id := spec.GetModelPath(), spec.GetJob().GetEvaluationConfig().GetCheckpointId()
	if path == "" {
		return noModel{fmt.Errorf("checkpoint %s, which is to be scored, was removed: submit the evaluation again with another checkpoint", id)}
	}
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noModel{fmt.Errorf("node %s has no %s, which is to be scored: set checkpoint_archive of the agents, keep checkpoints on a file system that all nodes share, or choose the node that has it with node_selector",
			in.node, path)}
	case err != nil:
		return noModel{fmt.Errorf("node %s cannot read %s, which is to be scored: %w", in.node, path, err)}
	}
	return nil
}

// ModelPath returns the model path given to the process: its location, or a name that the program must resolve.
func ModelPath(spec *v1.TaskSpec, dir string, data *Data) string {
	switch {
	case data != nil && data.model != nil:
		return data.model.path(dir)
	case spec.GetModelPath() != "":
		return spec.GetModelPath()
	}
	return spec.GetJob().GetTrainingConfig().GetBaseModel().GetModelId()
}
