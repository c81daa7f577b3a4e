package virtual

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/virtual/machine"
)

func TestCluster_runsAJob(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Coordinators: 3, Agents: 2, Seed: 1, Dir: dir})
		defer c.Close()
		defer func() {
			if t.Failed() {
				for _, l := range c.Journal(200) {
					t.Log(l)
				}
			}
		}()
		c.Start()
		cl := c.Client()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		resp, err := cl.Jobs().SubmitJob(client.WithCall(ctx, client.Call{Tenant: "t", IdempotencyKey: "k"}), &v1.SubmitJobRequest{
			Name: "first", CommandConfig: &v1.CommandConfig{Argv: machine.Behaviour{Run: 10 * time.Second}.Argv(), Cwd: "/"},
			ResourceConfig: &v1.ResourceConfig{GpuCount: 1},
		})
		require.NoError(t, err)
		var job *v1.Job
		for range 60 {
			time.Sleep(time.Second)
			got, err := cl.Jobs().GetJob(client.WithCall(ctx, client.Call{Tenant: "t"}), &v1.GetJobRequest{JobId: resp.GetJobId()})
			require.NoError(t, err)
			if job = got.GetJob(); job.GetState() == v1.JobState_SUCCEEDED {
				break
			}
		}
		require.Equal(t, v1.JobState_SUCCEEDED, job.GetState(), job)
		c.CheckViews()
		require.Empty(t, c.Findings.All())
		t.Log(c.Replicas.Summary())
	})
}
