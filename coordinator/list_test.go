package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestListJobs_pagesPinTheOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		var ids []string
		put := func(n int) {
			for range n {
				req := sleeper(1, 0)
				i := len(ids)
				req.Labels = map[string]string{"parity": []string{"even", "odd"}[i%2], "n": fmt.Sprint(i)}
				req.SchedulingConfig = &v1.SchedulingConfig{Priority: proto.Int32(int32(i % 3))}
				ids = append(ids, c.submit("c1", req))
			}
		}
		list := func(req *v1.ListJobsRequest) (*v1.ListJobsResponse, error) {
			return c.jobs("c1").ListJobs(c.ctx("t1", ""), req)
		}
		put(25)
		reversed := func(in []string) []string {
			out := make([]string, 0, len(in))
			for i := len(in) - 1; i >= 0; i-- {
				out = append(out, in[i])
			}
			return out
		}
		var byPriority []string
		for p := 2; p >= 0; p-- {
			for i, id := range ids {
				if i%3 == p {
					byPriority = append(byPriority, id)
				}
			}
		}
		for order, want := range map[string][]string{
			"": reversed(ids), "created_at desc": reversed(ids), "created_at": append([]string(nil), ids...), "priority desc": byPriority,
		} {
			var got []string
			token := ""
			for page := 0; ; page++ {
				resp, err := list(&v1.ListJobsRequest{PageSize: 7, OrderBy: order, PageToken: token})
				require.NoError(t, err)
				require.GreaterOrEqual(t, resp.GetTotalCount(), int32(25))
				for _, j := range resp.GetJobs() {
					got = append(got, j.GetJobId())
				}
				if token = resp.GetNextPageToken(); token == "" {
					break
				}
				require.Len(t, resp.GetJobs(), 7)
				if page == 0 && (order == "" || order == "created_at desc") {
					put(1) // newer than all listed jobs, so it shifts none
				}
			}
			if order == "created_at" || order == "priority desc" {
				got = got[:0]
				for token := ""; ; {
					resp, err := list(&v1.ListJobsRequest{PageSize: 100, OrderBy: order, PageToken: token})
					require.NoError(t, err)
					for _, j := range resp.GetJobs() {
						for _, id := range want {
							if id == j.GetJobId() {
								got = append(got, id)
							}
						}
					}
					if token = resp.GetNextPageToken(); token == "" {
						break
					}
				}
			}
			require.Equal(t, want, got[len(got)-len(want):], "order %q", order)
		}
		odd, err := list(&v1.ListJobsRequest{Label: []string{"parity=odd"}, PageSize: 3})
		require.NoError(t, err)
		require.Len(t, odd.GetJobs(), 3)
		require.GreaterOrEqual(t, odd.GetTotalCount(), int32(12))
		one, err := list(&v1.ListJobsRequest{Label: []string{"parity=odd", "n=3"}})
		require.NoError(t, err)
		require.Equal(t, ids[3], one.GetJobs()[0].GetJobId())
		none, err := list(&v1.ListJobsRequest{Label: []string{"parity=odd", "n=4"}})
		require.NoError(t, err)
		require.Empty(t, none.GetJobs())

		_, err = c.jobs("c1").CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: ids[5]})
		require.NoError(t, err)
		canceled, err := list(&v1.ListJobsRequest{Status: []v1.JobStatus_Value{v1.JobStatus_CANCELLED, v1.JobStatus_COMPLETED}})
		require.NoError(t, err)
		require.EqualValues(t, 1, canceled.GetTotalCount())
		require.Equal(t, ids[5], canceled.GetJobs()[0].GetJobId())
		elsewhere, err := list(&v1.ListJobsRequest{Queue: "night"})
		require.NoError(t, err)
		require.Zero(t, elsewhere.GetTotalCount())

		slim, err := list(&v1.ListJobsRequest{Fields: []string{"job_id", "name"}, Search: ids[5], Facets: true})
		require.NoError(t, err)
		require.Len(t, slim.GetJobs(), 1)
		require.True(t, proto.Equal(&v1.Job{JobId: ids[5], Name: slim.GetJobs()[0].GetName()}, slim.GetJobs()[0]), "%v", slim)
		require.NotEmpty(t, slim.GetJobs()[0].GetName())
		require.Equal(t, map[string]int32{"CANCELLED": 1}, slim.GetFacets().GetStatus())
		require.Equal(t, map[string]int32{"default": 1}, slim.GetFacets().GetQueue())

		for name, req := range map[string]*v1.ListJobsRequest{
			"token that is none":       {PageToken: "!!!"},
			"token of another list":    {PageToken: odd.GetNextPageToken()},
			"token of another order":   {PageToken: odd.GetNextPageToken(), Label: []string{"parity=odd"}, OrderBy: "priority desc"},
			"page too large":           {PageSize: 101},
			"negative page":            {PageSize: -1},
			"order that there is none": {OrderBy: "size"},
			"label without value":      {Label: []string{"parity"}},
			"field that there is none": {Fields: []string{"job_id", "colour"}},
		} {
			_, err := list(req)
			requireCode(t, codes.InvalidArgument, err, name)
		}
	})
}

// A page of large jobs ends before it is a mebibyte, and the next one goes on there.
func TestListJobs_pagesAreSmall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		var ids []string
		for range 12 {
			req := sleeper(1, 0)
			req.CommandConfig.Environment = map[string]string{"DATA": strings.Repeat("x", 100<<10)}
			ids = append(ids, c.submit("c1", req))
		}
		for _, order := range []string{"created_at", "name"} {
			var got []string
			for token := ""; ; {
				page, err := c.jobs("c1").ListJobs(c.ctx("t1", ""), &v1.ListJobsRequest{PageSize: 100, OrderBy: order, PageToken: token})
				require.NoError(t, err)
				require.Less(t, proto.Size(page), 1<<20)
				require.EqualValues(t, len(ids), page.GetTotalCount())
				for _, j := range page.GetJobs() {
					got = append(got, j.GetJobId())
				}
				if token = page.GetNextPageToken(); token == "" {
					break
				}
			}
			require.Equal(t, ids, got, order)
		}
		slim, err := c.jobs("c1").ListJobs(c.ctx("t1", ""), &v1.ListJobsRequest{PageSize: 100, Fields: []string{"job_id"}})
		require.NoError(t, err)
		require.Len(t, slim.GetJobs(), len(ids), "fields that are not wanted take no room")
	})
}
