package virtual

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// logTime limits the time to read one log.
const logTime = 20 * time.Second

// Settle waits until every job has ended, and checks its final state against the calls of users and the processes that
// ran. The cluster must be whole, and users must not work. It returns the ended jobs by key.
func (w *Workload) Settle(within time.Duration) map[string]*v1.Job {
	ended := w.ends(within)
	w.cluster.Empty()
	return ended
}

func (w *Workload) ends(within time.Duration) map[string]*v1.Job {
	deadline := time.Now().Add(within)
	ended := map[string]*v1.Job{}
	for _, j := range w.Jobs() {
		// A client that got no answer submits again; because of the key it is the same job.
		for j.ID == "" && time.Now().Before(deadline) {
			ctx, cancel := w.context("submit-" + j.Key)
			resp, err := w.client.Jobs().SubmitJob(ctx, w.request(j))
			cancel()
			if err == nil {
				j.ID = resp.GetJobId()
			} else {
				time.Sleep(time.Second)
			}
		}
	}
	for _, j := range w.Jobs() {
		for {
			job := w.Get(-1, j)
			if p := PhaseOf(job); job != nil && (p == "succeeded" || p == "failed" || p == "canceled") {
				ended[j.Key] = job
				break
			}
			if !time.Now().Before(deadline) {
				w.cluster.Findings.Add("job %s (%s) did not end: it is %s: %s\n%s", j.Key, j.ID, job.GetState(), job.GetReason(), w.cluster.World.Story(j.ID))
				break
			}
			time.Sleep(time.Second)
		}
	}
	ids := map[string]string{}
	for _, j := range w.Jobs() {
		if other, ok := ids[j.ID]; ok {
			w.cluster.Findings.Add("I4: keys %s and %s are one job", j.Key, other)
		}
		ids[j.ID] = j.Key
		if job := ended[j.Key]; job != nil {
			w.verify(j, job)
		}
	}
	w.once(ids)
	return ended
}

// Foreign checks that another tenant cannot access the jobs of this workload (I11).
func (w *Workload) Foreign(other string) {
	for _, j := range w.Jobs() {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		ctx = client.WithCall(ctx, client.Call{Tenant: other})
		_, err := w.client.Jobs().GetJob(ctx, &v1.GetJobRequest{JobId: j.ID})
		if status.Code(err) != codes.NotFound {
			w.cluster.Findings.Add("I11: %s of %s, read by %s: %v", j.ID, w.load.Tenant, other, err)
		}
		if _, err = w.client.Jobs().CancelJob(ctx, &v1.CancelJobRequest{JobId: j.ID}); status.Code(err) != codes.NotFound {
			w.cluster.Findings.Add("I11: %s of %s, canceled by %s: %v", j.ID, w.load.Tenant, other, err)
		}
		cancel()
	}
}

// Empty checks that no process is left after all jobs have ended.
func (c *Cluster) Empty() {
	// Nodes stop the tasks of lost attempts, which takes a grace period.
	live, _ := c.World.Live()
	for range 120 {
		if live == 0 {
			break
		}
		time.Sleep(time.Second)
		live, _ = c.World.Live()
	}
	if live > 0 {
		c.Findings.Add("%d processes live after all jobs ended", live)
	}
}

// once checks that no key made two jobs (I4).
func (w *Workload) once(ids map[string]string) {
	for page := ""; ; {
		ctx, cancel := w.context("")
		resp, err := w.client.Jobs().ListJobs(ctx, &v1.ListJobsRequest{PageSize: 100, PageToken: page})
		cancel()
		if err != nil {
			w.cluster.Findings.Add("jobs cannot be listed: %v", err)
			return
		}
		for _, job := range resp.GetJobs() {
			if ids[job.GetJobId()] != job.GetName() {
				w.cluster.Findings.Add("I4: %s was submitted once, and there are %s and another", job.GetName(), job.GetJobId())
			}
			delete(ids, job.GetJobId())
		}
		if page = resp.GetNextPageToken(); page == "" {
			break
		}
	}
	for id, key := range ids {
		w.cluster.Findings.Add("I4: job %s (%s) was acknowledged and is not listed", key, id)
	}
}

// verify checks the final state of a job against its processes.
func (w *Workload) verify(j *Job, job *v1.Job) {
	add := func(format string, args ...any) {
		args = append(args, w.cluster.World.Story(j.ID))
		w.cluster.Findings.Add("job "+j.Key+" ("+j.ID+") is "+job.GetState().String()+" ("+job.GetReason()+"): "+format+"\n%s", args...)
	}
	lives := w.cluster.World.Lives(j.ID)
	done, attempts := map[int]bool{}, map[int]bool{}
	for _, l := range lives {
		if l.Ended.IsZero() {
			add("rank %d of attempt %d still lives", l.Rank, l.Attempt)
		}
		attempts[l.Attempt] = true
		if l.Attempt == int(job.GetAttempt()) && l.Why == "its work was done" {
			done[l.Rank] = true
		}
	}
	if !j.Retried && !j.Restarts && len(attempts) > 1 {
		add("it had %d attempts and is not restartable", len(attempts))
	}
	switch job.GetState() {
	case v1.JobState_SUCCEEDED:
		if j.Does.Exit != 0 {
			add("its program ends with %d", j.Does.Exit)
		}
		if len(done) != j.Ranks {
			add("%d of %d ranks did their work", len(done), j.Ranks)
		}
		if job.ExitCode == nil || job.GetExitCode() != 0 {
			add("its exit code is not 0")
		}
		w.logs(j, job, add)
	case v1.JobState_FAILED:
		switch {
		case job.GetErrorType() == v1.ErrorType_EXIT_NONZERO && int(job.GetExitCode()) != j.Does.Exit:
			add("its exit code is %d and its program ended with %d", job.GetExitCode(), j.Does.Exit)
		case job.GetErrorType() == v1.ErrorType_EXIT_NONZERO && len(done) == 0:
			add("no program of it ended by itself")
		case job.GetErrorType() == v1.ErrorType_INTERNAL, job.GetErrorType() == v1.ErrorType_LAUNCH_FAILED:
			add("error %s: %s", job.GetErrorType(), job.GetErrorMessage())
		}
	case v1.JobState_CANCELED:
		if !j.Canceled {
			add("nobody canceled it")
		}
	}
}

// logs reads the log of the last attempt as a user does, and checks its lines.
func (w *Workload) logs(j *Job, job *v1.Job, add func(string, ...any)) {
	ctx, cancel := context.WithTimeout(context.Background(), logTime)
	defer cancel()
	follow := false
	stream, err := w.client.Jobs().StreamJobLogs(client.WithCall(ctx, client.Call{Tenant: w.load.Tenant}), &v1.StreamJobLogsRequest{JobId: j.ID, Follow: &follow, Attempt: job.GetAttempt()})
	if err != nil {
		add("its log cannot be read: %v", err)
		return
	}
	lines := 0
	for {
		resp, err := stream.Recv()
		if err != nil {
			break
		}
		lines += len(resp.GetEntries())
	}
	if want := 3 * j.Ranks; lines != want && j.Does.Run < 12*time.Hour {
		w.mu.Lock()
		w.answered["logs short"]++
		w.mu.Unlock()
		if !w.LogsMayBeGone {
			add("%d lines of its log can be read, and it wrote %d", lines, want)
		}
	}
}
