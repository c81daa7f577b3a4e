package coordinator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// uploadedJob is a job with an upload.
func uploadedJob(digit string) *v1.SubmitJobRequest {
	r := sleeper(0, 0)
	r.CommandConfig.Upload = "sha256:" + strings.Repeat(digit, 64)
	return r
}

// Uploads of all tenants are listed as long as a job or a schedule names them, also when the job is over.
func TestCluster_listsTheUploadsThatAreNamed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		list := func(token string) (*v1.ListUploadsResponse, error) {
			return c.jobs(at).ListUploads(c.ctx("", ""), &v1.ListUploadsRequest{PageToken: token})
		}
		got, err := list("")
		require.NoError(t, err)
		require.Empty(t, got.GetUploads())

		first := c.submit(at, uploadedJob("a"))
		c.submit(at, sleeper(0, 0))
		_, err = c.jobs(at).SubmitJob(c.ctx("t2", ""), uploadedJob("a"))
		require.NoError(t, err)
		labelled := sleeper(0, 0)
		labelled.Labels = map[string]string{"sha256:": "sha256:" + strings.Repeat("f", 64)}
		c.submit(at, labelled)
		array := uploadedJob("b")
		array.SchedulingConfig = &v1.SchedulingConfig{Array: &v1.ArraySpec{Start: 0, End: 3}}
		c.submit(at, array)
		_, err = v1.NewScheduleServiceClient(c.members[at].conn).PutSchedule(c.ctx("t1", ""), &v1.PutScheduleRequest{Name: "nightly", Cron: "0 0 * * *", Job: uploadedJob("c")})
		require.NoError(t, err)
		_, err = c.jobs(at).CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: first})
		require.NoError(t, err)
		got, err = list("")
		require.NoError(t, err)
		named := map[string]bool{}
		for _, u := range got.GetUploads() {
			named[u.GetTenantId()+" "+u.GetUpload()[len("sha256:"):][:1]] = true
		}
		require.Equal(t, map[string]bool{"t1 a": true, "t2 a": true, "t1 b": true, "t1 c": true}, named)
		require.Empty(t, got.GetNextPageToken())
		got, err = list(first)
		require.NoError(t, err)
		require.Equal(t, "t2", got.GetUploads()[0].GetTenantId(), "a page goes on after its token")
		_, err = list("nonsense")
		requireCode(t, codes.InvalidArgument, err)
	})
}
