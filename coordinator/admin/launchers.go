package admin

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/mindcoordinator/mind/api/launcher"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/catalog"
)

// LauncherInForce returns the launcher in use for a framework: the configured one, or the built-in one; nil for an
// unknown framework.
func LauncherInForce(v *fsm.View, framework string) *v1.Launcher {
	row, ok := v.Launcher(framework)
	if !ok {
		return launcher.Builtin(framework)
	}
	return &v1.Launcher{
		Framework: row.Framework, Argv: row.Argv, DistributedArgv: row.DistributedArgv, Environment: row.Environment,
		Hyperparameters: row.Hyperparameters, TrainingTypes: row.TrainingTypes, UpdatedAt: call.Time(row.UpdatedAt),
	}
}

// launcherView returns a launcher as a tenant sees it: with the user who changed it only if that is a user of the
// tenant.
func launcherView(v *fsm.View, framework, tenant string) *v1.Launcher {
	l := LauncherInForce(v, framework)
	if row, ok := v.Launcher(framework); ok && row.Tenant == tenant {
		l.UpdatedBy = row.User
	}
	return l
}

// LauncherFor returns the parts of a launcher that a task needs; nil for a job with a command.
func LauncherFor(v *fsm.View, job *v1.SubmitJobRequest) *v1.Launcher {
	framework, _ := launcher.For(job)
	l := LauncherInForce(v, framework)
	if l == nil {
		return nil
	}
	return &v1.Launcher{Framework: framework, Argv: l.Argv, DistributedArgv: l.DistributedArgv, Environment: l.Environment}
}

// ListLaunchers lists all launchers, configured and built-in.
func (s *Service) ListLaunchers(ctx context.Context, _ *v1.ListLaunchersRequest) (*v1.ListLaunchersResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &v1.ListLaunchersResponse{}
	for _, framework := range launcher.Frameworks {
		out.Launchers = append(out.Launchers, launcherView(v, framework, call.Of(ctx).Tenant))
	}
	return out, nil
}

// mayPutLauncher refuses callers who are not operators: a launcher contains the program of every tenant's trainings.
func mayPutLauncher(c *call.Call) error {
	if c.Operator {
		return nil
	}
	return call.Errorf(codes.PermissionDenied, "a launcher applies to all tenants: only operators of the cluster can set one")
}

// PutLauncher replaces the launcher of a framework.
func (s *Service) PutLauncher(ctx context.Context, req *v1.PutLauncherRequest) (*v1.PutLauncherResponse, error) {
	if err := mayPutLauncher(call.Of(ctx)); err != nil {
		return nil, err
	}
	l := req.GetLauncher()
	if l == nil {
		return nil, call.Bad("launcher", "is missing")
	}
	if l.GetFramework() != "" && !slices.Contains(launcher.Frameworks, l.GetFramework()) {
		return nil, call.NotFound("launcher", l.GetFramework())
	}
	var fault *launcher.Fault
	if err := launcher.Check(l); errors.As(err, &fault) {
		return nil, call.Bad(fault.Field, "%s", fault.Message)
	}
	c := call.Of(ctx)
	hyperparameters := slices.Clone(l.GetHyperparameters())
	slices.Sort(hyperparameters)
	result, err := replica.Propose[catalog.LauncherResult](ctx, s.replica, catalog.PutLauncher{Launcher: catalog.Launcher{
		Framework: l.GetFramework(), Argv: l.GetArgv(), DistributedArgv: l.GetDistributedArgv(), Environment: l.GetEnvironment(),
		Hyperparameters: slices.Compact(hyperparameters), TrainingTypes: l.GetTrainingTypes(), Tenant: c.Tenant, User: c.User,
	}, Actor: c.Actor()})
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, call.Refused(result.Refusal)
	}
	return &v1.PutLauncherResponse{Launcher: launcherView(s.replica.View(), l.GetFramework(), c.Tenant)}, nil
}

// DeleteLauncher restores the built-in launcher.
func (s *Service) DeleteLauncher(ctx context.Context, req *v1.DeleteLauncherRequest) (*v1.DeleteLauncherResponse, error) {
	if err := mayPutLauncher(call.Of(ctx)); err != nil {
		return nil, err
	}
	framework := req.GetFramework()
	if !slices.Contains(launcher.Frameworks, framework) {
		return nil, call.NotFound("launcher", framework)
	}
	c := call.Of(ctx)
	result, err := replica.Propose[catalog.LauncherResult](ctx, s.replica, catalog.DeleteLauncher{Framework: framework, Tenant: c.Tenant, User: c.User, Actor: c.Actor()})
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, call.Refused(result.Refusal)
	}
	return &v1.DeleteLauncherResponse{Launcher: launcherView(s.replica.View(), framework, c.Tenant)}, nil
}
