package coordinator

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/launcher"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

func (c *cluster) launchers(id string) v1.LauncherServiceClient {
	return v1.NewLauncherServiceClient(c.members[id].conn)
}

// operator is ctx for a caller that the gateway has checked to be an operator.
func (c *cluster) operator(tenant string, more ...string) context.Context {
	return c.ctx(tenant, "", append(more, status.KeyOperator, "1")...)
}

func (c *cluster) launcher(at, tenant, framework string) *v1.Launcher {
	c.t.Helper()
	reply, err := c.launchers(at).ListLaunchers(c.ctx(tenant, ""), &v1.ListLaunchersRequest{})
	require.NoError(c.t, err)
	var names []string
	var found *v1.Launcher
	for _, l := range reply.GetLaunchers() {
		names = append(names, l.GetFramework())
		if l.GetFramework() == framework {
			found = l
		}
	}
	require.Equal(c.t, launcher.Frameworks, names)
	return found
}

// A launcher that is put at a follower applies at once at all coordinators and to new jobs, and survives the leader.
func TestLaunchers_arePutListedAndReset(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		built := c.launcher(at, "t1", "FSDP")
		require.True(t, built.GetBuiltin())
		require.Equal(t, "torchrun", built.GetArgv()[0])

		mine := &v1.Launcher{Framework: "FSDP", Argv: []string{"/opt/fsdp", "{config}"}, Hyperparameters: []string{"b", "a", "b"}, TrainingTypes: []string{"SFT"}}
		put, err := c.launchers(at).PutLauncher(c.operator("t1", status.KeyUser, "ann"), &v1.PutLauncherRequest{Launcher: mine})
		require.NoError(t, err)
		require.Equal(t, "ann", put.GetLauncher().GetUpdatedBy())
		leader := c.leader()
		c.kill(leader)
		c.leader()
		for _, id := range c.running() {
			got := c.launcher(id, "t1", "FSDP")
			require.Equal(t, mine.GetArgv(), got.GetArgv())
			require.Equal(t, []string{"a", "b"}, got.GetHyperparameters())
			require.Equal(t, "ann", got.GetUpdatedBy())
			require.False(t, got.GetBuiltin())
			require.NotZero(t, got.GetUpdatedAt().AsTime())
			require.Empty(t, c.launcher(id, "t2", "FSDP").GetUpdatedBy(), "who put it is told to no other tenant")
			require.True(t, c.launcher(id, "t1", "CUSTOM").GetBuiltin())
		}

		at = c.running()[0]
		req := trainingJob()
		req.TrainingConfig.Framework.Type = v1.FrameworkType_FSDP
		_, err = c.jobs(at).SubmitJob(c.ctx("t2", ""), req)
		requireCode(t, codes.InvalidArgument, err)
		require.Contains(t, grpcstatus.Convert(err).Message(), "LORA is not supported by framework FSDP, which takes SFT")
		reset, err := c.launchers(at).DeleteLauncher(c.operator("t1"), &v1.DeleteLauncherRequest{Framework: "FSDP"})
		require.NoError(t, err)
		require.True(t, reset.GetLauncher().GetBuiltin())
		_, err = c.launchers(at).DeleteLauncher(c.operator("t1"), &v1.DeleteLauncherRequest{Framework: "FSDP"})
		require.NoError(t, err, "twice is once")
		_, err = c.jobs(at).SubmitJob(c.ctx("t2", ""), req)
		require.NoError(t, err)
	})
}

func TestLaunchers_refused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		for name, tt := range map[string]struct {
			l    *v1.Launcher
			says string
		}{
			"none":          {nil, "is missing"},
			"no framework":  {&v1.Launcher{Argv: []string{"a"}}, `there is no framework ""`},
			"no argv":       {&v1.Launcher{Framework: "FSDP"}, "argv: is empty"},
			"a placeholder": {&v1.Launcher{Framework: "FSDP", Argv: []string{"a", "--x={nope}"}}, "argv[1]"},
		} {
			_, err := c.launchers("c1").PutLauncher(c.operator("t1"), &v1.PutLauncherRequest{Launcher: tt.l})
			requireCode(t, codes.InvalidArgument, err, name)
			require.Contains(t, grpcstatus.Convert(err).Message(), tt.says, name)
		}
		_, err := c.launchers("c1").PutLauncher(c.operator("t1"), &v1.PutLauncherRequest{Launcher: &v1.Launcher{Framework: "JAX", Argv: []string{"a"}}})
		requireCode(t, codes.NotFound, err)
		_, err = c.launchers("c1").DeleteLauncher(c.operator("t1"), &v1.DeleteLauncherRequest{Framework: "JAX"})
		requireCode(t, codes.NotFound, err)
		_, err = c.launchers("c1").PutLauncher(c.ctx("t1", ""), &v1.PutLauncherRequest{Launcher: &v1.Launcher{Framework: "FSDP", Argv: []string{"a"}}})
		requireCode(t, codes.PermissionDenied, err)
		_, err = c.launchers("c1").DeleteLauncher(c.ctx("t1", ""), &v1.DeleteLauncherRequest{Framework: "FSDP"})
		requireCode(t, codes.PermissionDenied, err)
		_, err = c.launchers("c1").ListLaunchers(c.ctx("", ""), &v1.ListLaunchersRequest{})
		requireCode(t, codes.InvalidArgument, err)
		require.True(t, c.launcher("c1", "t1", "FSDP").GetBuiltin(), "nothing was put")
	})
}
