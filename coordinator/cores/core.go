package cores

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/programs"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/coreverbs"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// given has the fields of a Core in a request; CreateCoreRequest and UpdateCoreRequest implement it.
type given interface {
	GetName() string
	GetRuntimeMode() string
	GetConcurrencyMode() string
	GetEntityKeyField() string
	GetSource() *structpb.Struct
	GetPlugins() []*structpb.Struct
	GetEnvironment() *structpb.Struct
	GetResourceLimits() *structpb.Struct
	GetCheckpointMode() string
	GetPrivilegeLevel() string
	GetMetadata() *structpb.Struct
	GetNotifyUrl() string
}

// CreateCore makes a Core.
func (s *Service) CreateCore(ctx context.Context, req *v1.CreateCoreRequest) (*v1.CreateCoreResponse, error) {
	by := call.Of(ctx)
	c := coreverbs.PutCore{Tenant: by.Tenant, User: by.User, Name: req.GetName(), Slug: slugOf(req.GetName()), Actor: by.Actor()}
	c.Key, c.Fingerprint = by.Key, fingerprintOf(req)
	if err := s.fill(&c, &config{RuntimeMode: "event_driven", ConcurrencyMode: "stateless", CheckpointMode: "auto", PrivilegeLevel: "standard"}, req); err != nil {
		return nil, err
	}
	row, err := s.put(ctx, c)
	if err != nil {
		return nil, err
	}
	return &v1.CreateCoreResponse{Core: s.shown(row, true)}, nil
}

// fingerprintOf tells requests apart that come with the same key. The environment is left out: the state keeps the fingerprint, and it
// must not help to guess a secret.
func fingerprintOf(req *v1.CreateCoreRequest) uint64 {
	plain := proto.CloneOf(req)
	plain.Environment = nil
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(plain) // It came in as a message, so it can go out as one.
	return fingerprint("", text)
}

// updates is how often a change without a condition is tried again while others change the same Core.
const updates = 32

// UpdateCore changes the given fields of a Core. Without if_revision, it changes them whatever others change meanwhile.
func (s *Service) UpdateCore(ctx context.Context, req *v1.UpdateCoreRequest) (*v1.UpdateCoreResponse, error) {
	for tries := 1; ; tries++ {
		row, refusal, err := s.update(ctx, req)
		switch {
		case err != nil:
			return nil, err
		case refusal == nil:
			return &v1.UpdateCoreResponse{Core: s.shown(row, true)}, nil
		case refusal.Code != kernel.CodeAborted || req.GetIfRevision() > 0 || tries == updates:
			return nil, call.Refused(refusal)
		}
	}
}

// update changes a Core that has the revision of the request, or the one that is read.
func (s *Service) update(ctx context.Context, req *v1.UpdateCoreRequest) (*cores.Core, *kernel.Refusal, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	old, err := find(ctx, v, req.GetCoreId())
	if err != nil {
		return nil, nil, err
	}
	by := call.Of(ctx)
	c := coreverbs.PutCore{ID: old.ID, Tenant: by.Tenant, User: by.User, Name: old.Name, Slug: old.Slug, IfRevision: old.Revision, Actor: by.Actor()}
	if given := uint64(max(req.GetIfRevision(), 0)); given != 0 {
		c.IfRevision = given
	}
	if req.GetName() != "" && req.GetName() != old.Name {
		c.Name, c.Slug = req.GetName(), slugOf(req.GetName())
	}
	if err := s.fill(&c, configOf(old), req); err != nil {
		return nil, nil, err
	}
	if err := s.moveEnvironment(&c, old); err != nil {
		return nil, nil, err
	}
	result, err := replica.Propose[coreverbs.Result](ctx, s.State, c)
	return result.Core, result.Refusal, err
}

func (s *Service) put(ctx context.Context, c coreverbs.PutCore) (*cores.Core, error) {
	result, err := replica.Propose[coreverbs.Result](ctx, s.State, c)
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	return result.Core, nil
}

// noURL is the notify_url that takes that of a Core away; an empty one leaves it.
const noURL = "none"

// fill checks a request, and adds it to a command. base is the configuration that it changes.
func (s *Service) fill(c *coreverbs.PutCore, base *config, req given) error {
	var f call.Faults
	if c.Slug == "" || len(c.Name) > maxName {
		f.Bad("name", "must have 1 to %d bytes, and a letter or a digit in them", maxName)
	}
	call.Plain(&f, "name", c.Name)
	oneOf(&f, "runtime_mode", req.GetRuntimeMode(), runtimeModes)
	oneOf(&f, "concurrency_mode", req.GetConcurrencyMode(), concurrencyModes)
	oneOf(&f, "checkpoint_mode", req.GetCheckpointMode(), checkpointModes)
	oneOf(&f, "privilege_level", req.GetPrivilegeLevel(), privilegeLevels)
	if m := req.GetConcurrencyMode(); m == "entity" || m == "singleton" {
		f.Bad("concurrency_mode", "is %s, which this version of Mind does not run: use stateless", m)
	}
	for to, from := range map[*string]string{
		&base.RuntimeMode: req.GetRuntimeMode(), &base.ConcurrencyMode: req.GetConcurrencyMode(), &base.EntityKeyField: req.GetEntityKeyField(),
		&base.CheckpointMode: req.GetCheckpointMode(), &base.PrivilegeLevel: req.GetPrivilegeLevel(),
	} {
		if from != "" {
			*to = from
		}
	}
	switch url := req.GetNotifyUrl(); url {
	case "":
	case noURL:
		base.NotifyURL = ""
	default:
		if err := s.Notifies(url); err != nil {
			f.Bad("notify_url", "cannot be used: %v", err)
		}
		base.NotifyURL = url
	}
	if len(req.GetPlugins()) > 0 {
		base.Plugins = nil
		for _, p := range req.GetPlugins() {
			base.Plugins = append(base.Plugins, programs.FromStruct(p))
		}
	}
	if req.GetResourceLimits() != nil {
		base.ResourceLimits = programs.FromStruct(req.GetResourceLimits())
	}
	if req.GetMetadata() != nil {
		base.Metadata = programs.FromStruct(req.GetMetadata())
	}
	if err := f.Err(); err != nil {
		return err
	}
	if err := s.environment(c, base, req.GetEnvironment()); err != nil {
		return err
	}
	if source := req.GetSource(); len(source.GetFields()) > 0 {
		if err := program(c, source); err != nil {
			return err
		}
		if err := programs.CheckURLs(c.Source, s.Notifies); err != nil {
			return call.Bad("source", "%v", err)
		}
	}
	var err error
	c.Config, err = base.encode()
	return err
}

// program checks a program and stores it in its own form, so that equal programs are equal bytes.
func program(c *coreverbs.PutCore, source *structpb.Struct) error {
	raw, err := programs.JSON(source)
	if err != nil {
		return call.Bad("source", "is not JSON: %v", err)
	}
	m, faults := programs.Validate(raw)
	if len(faults) > 0 {
		return invalid(faults)
	}
	if c.Source, err = m.Encode(); err != nil {
		return fmt.Errorf("storing a program: %w", err)
	}
	c.Digest = programs.Digest(c.Source)
	return nil
}

// environment encrypts the values of an environment.
func (s *Service) environment(c *coreverbs.PutCore, base *config, values *structpb.Struct) error {
	if values == nil {
		return nil
	}
	plain := map[string]string{}
	for name, value := range values.GetFields() {
		text, ok := value.GetKind().(*structpb.Value_StringValue)
		if secret := value.GetStructValue(); secret != nil {
			text, ok = secret.GetFields()["value"].GetKind().(*structpb.Value_StringValue)
		}
		if !ok {
			return call.Bad("environment", "the value of %s must be text, or {\"type\": \"secret\", \"value\": text}", call.Clip(name, 64))
		}
		plain[name] = text.StringValue
	}
	base.Names = slices.Sorted(maps.Keys(plain))
	c.SetEnvironment = true
	if len(plain) == 0 {
		c.Environment = nil
		return nil
	}
	raw, err := json.Marshal(plain)
	if err != nil {
		return fmt.Errorf("storing an environment: %w", err)
	}
	c.Environment, err = s.Sealer.SealText(owner(c.Tenant, c.Slug), raw)
	return err
}

// moveEnvironment seals the environment of a Core again when its slug changes, because it is sealed for the slug.
func (s *Service) moveEnvironment(c *coreverbs.PutCore, old *cores.Core) error {
	if c.Slug == old.Slug || c.SetEnvironment || len(old.Environment) == 0 {
		return nil
	}
	plain, err := s.Sealer.OpenText(owner(old.Tenant, old.Slug), old.Environment)
	if err != nil {
		return call.Errorf(codes.FailedPrecondition, "the environment of the Core %s cannot be decrypted, so its name cannot be changed: give its values again", old.Slug)
	}
	c.SetEnvironment = true
	c.Environment, err = s.Sealer.SealText(owner(c.Tenant, c.Slug), plain)
	return err
}

// owner names the Core that an environment is sealed for.
func owner(tenant, slug string) string { return tenant + "\x00core\x00" + slug }

// OpenEnvironment says whether this coordinator can decrypt the environment of a Core.
func (s *Service) OpenEnvironment(c *cores.Core) error {
	if _, err := s.Sealer.OpenText(owner(c.Tenant, c.Slug), c.Environment); err != nil {
		return fmt.Errorf("its environment cannot be decrypted: %w", err)
	}
	return nil
}

// ListCores lists the Cores of the caller's tenant.
func (s *Service) ListCores(ctx context.Context, req *v1.ListCoresRequest) (*v1.ListCoresResponse, error) {
	most, err := limit(req.GetLimit())
	if err != nil {
		return nil, err
	}
	if at := req.GetCursor(); at != "" && at != slugOf(at) {
		return nil, call.Bad("cursor", "is not a next_cursor of a page")
	}
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &v1.ListCoresResponse{}
	for c := range v.CoresOf(call.Of(ctx).Tenant, req.GetCursor()) {
		if len(out.Cores) == most {
			out.NextCursor = out.Cores[most-1].GetSlug()
			break
		}
		out.Cores = append(out.Cores, s.shown(c, false))
	}
	return out, nil
}

// GetCore shows a Core with its program.
func (s *Service) GetCore(ctx context.Context, req *v1.GetCoreRequest) (*v1.GetCoreResponse, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	c, err := find(ctx, v, req.GetCoreId())
	if err != nil {
		return nil, err
	}
	return &v1.GetCoreResponse{Core: s.shown(c, true)}, nil
}

// DeleteCore deletes a Core.
func (s *Service) DeleteCore(ctx context.Context, req *v1.DeleteCoreRequest) (*v1.DeleteCoreResponse, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	c, err := find(ctx, v, req.GetCoreId())
	if err != nil {
		return nil, err
	}
	by := call.Of(ctx)
	result, err := replica.Propose[coreverbs.Result](ctx, s.State, coreverbs.DeleteCore{ID: c.ID, Tenant: by.Tenant, Actor: by.Actor()})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	return &v1.DeleteCoreResponse{}, nil
}

// control moves a Core to another state.
func (s *Service) control(ctx context.Context, text string, action cores.Action) (*v1.Core, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	c, err := find(ctx, v, text)
	if err != nil {
		return nil, err
	}
	by := call.Of(ctx)
	result, err := replica.Propose[coreverbs.Result](ctx, s.State, coreverbs.ControlCore{ID: c.ID, Tenant: by.Tenant, Action: action, Actor: by.Actor()})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	return s.shown(result.Core, false), nil
}

// StartCore starts a Core. It runs as soon as the leader has checked it.
func (s *Service) StartCore(ctx context.Context, req *v1.StartCoreRequest) (*v1.StartCoreResponse, error) {
	c, err := s.control(ctx, req.GetCoreId(), cores.Start)
	return &v1.StartCoreResponse{Core: c}, err
}

// StopCore stops a Core. Its executions are held until it is started again.
func (s *Service) StopCore(ctx context.Context, req *v1.StopCoreRequest) (*v1.StopCoreResponse, error) {
	c, err := s.control(ctx, req.GetCoreId(), cores.Stop)
	return &v1.StopCoreResponse{Core: c}, err
}

// RestartCore restarts a Core.
func (s *Service) RestartCore(ctx context.Context, req *v1.RestartCoreRequest) (*v1.RestartCoreResponse, error) {
	c, err := s.control(ctx, req.GetCoreId(), cores.Restart)
	return &v1.RestartCoreResponse{Core: c}, err
}

// PauseCore pauses a Core. Its executions are held until it is resumed.
func (s *Service) PauseCore(ctx context.Context, req *v1.PauseCoreRequest) (*v1.PauseCoreResponse, error) {
	c, err := s.control(ctx, req.GetCoreId(), cores.Pause)
	return &v1.PauseCoreResponse{Core: c}, err
}

// ResumeCore resumes a paused Core.
func (s *Service) ResumeCore(ctx context.Context, req *v1.ResumeCoreRequest) (*v1.ResumeCoreResponse, error) {
	c, err := s.control(ctx, req.GetCoreId(), cores.Resume)
	return &v1.ResumeCoreResponse{Core: c}, err
}
