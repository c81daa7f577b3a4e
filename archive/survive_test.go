package archive_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/s3server"
	"github.com/mindcoordinator/mind/archive/tasks"
	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
)

// follower reads a stream and keeps the lines.
type follower struct {
	t      *testing.T
	stream v1.JobService_StreamJobLogsClient
	lines  []string
	cursor string
	err    error
}

func (s *site) follow(req *v1.StreamJobLogsRequest) *follower {
	s.t.Helper()
	stream, err := s.jobs().StreamJobLogs(s.ctx(), req)
	require.NoError(s.t, err)
	return &follower{t: s.t, stream: stream}
}

// next receives one message. It returns false at the end of the stream.
func (f *follower) next() bool {
	resp, err := f.stream.Recv()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			f.err = err
		}
		return false
	}
	if resp.GetCursor() != "" {
		f.cursor = resp.GetCursor()
	}
	for _, e := range resp.GetEntries() {
		f.lines = append(f.lines, e.GetMessage())
		f.cursor = e.GetCursor()
	}
	return true
}

// until receives until the follower has n lines.
func (f *follower) until(n int) {
	f.t.Helper()
	for len(f.lines) < n {
		require.True(f.t, f.next(), "the stream ended after %d lines of %d: %v", len(f.lines), n, f.err)
	}
}

// all receives to the end.
func (f *follower) all() []string {
	for f.next() {
	}
	return f.lines
}

func digest(lines []string) string {
	return fmt.Sprintf("%d lines, %x", len(lines), sha256.Sum256([]byte(strings.Join(lines, "\n"))))
}

// text returns the lines that a writer prints, from one number to another.
func text(from, to int) (lines []string) {
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf("line %d of a log that must not be lost", i))
	}
	return lines
}

// writer returns a script that prints a number of lines, waits until the next gate opens, and so on.
func writer(gates string, counts ...int) string {
	var b strings.Builder
	b.WriteString("i=0\n")
	total := 0
	for n, count := range counts {
		if n > 0 {
			fmt.Fprintf(&b, "while [ ! -e %s.%d ]; do sleep 0.01; done\n", gates, n)
		}
		total += count
		fmt.Fprintf(&b, "while [ $i -lt %d ]; do echo \"line $i of a log that must not be lost\"; i=$((i+1)); done\n", total)
		fmt.Fprintf(&b, "echo '{\"step\": %d, \"lines\": %d}' >> $MIND_METRICS_FILE\n", total, total)
	}
	return b.String()
}

func open(t *testing.T, gates string, n int) {
	require.NoError(t, os.WriteFile(fmt.Sprintf("%s.%d", gates, n), nil, 0o600))
}

// kept waits until the manifest of a task in the archive satisfies want.
func (s *site) kept(job string, attempt int32, want func(*tasks.Manifest) bool) *tasks.Manifest {
	s.t.Helper()
	store, err := archive.Open(s.archive, archive.Access{})
	require.NoError(s.t, err)
	var m *tasks.Manifest
	s.eventually("what the archive should have", func() error {
		m, err = tasks.Find(s.ctx(), store, job, attempt, 0)
		if err == nil && !want(m) {
			err = fmt.Errorf("it has %+v", m)
		}
		return err
	})
	return m
}

func final(m *tasks.Manifest) bool { return m.Final }

// printed returns a condition that holds if a manifest has at least n lines.
func (s *site) printed(n int) func(*tasks.Manifest) bool {
	store, err := archive.Open(s.archive, archive.Access{})
	require.NoError(s.t, err)
	return func(m *tasks.Manifest) bool {
		entries, err := tasks.NewLogReader(store, m).Next(s.ctx(), n)
		return err == nil && len(entries) == n
	}
}

// everyWay reads a log in all ways, and compares the results with the printed lines.
func (s *site) everyWay(job string, want []string) {
	s.t.Helper()
	for name, req := range map[string]*v1.StreamJobLogsRequest{
		"followed": {}, "once": {Follow: proto.Bool(false)}, "by attempt": {Attempt: 1}, "by rank": {Rank: proto.Int32(0)},
	} {
		req.JobId = job
		f := s.follow(req)
		require.Equal(s.t, digest(want), digest(f.all()), name)
		require.NoError(s.t, f.err, name)
	}
	half := s.follow(&v1.StreamJobLogsRequest{JobId: job})
	half.until(len(want) / 3)
	rest := s.follow(&v1.StreamJobLogsRequest{JobId: job, Cursor: half.cursor})
	require.Equal(s.t, digest(want), digest(append(half.lines, rest.all()...)), "resumed")
	for _, n := range []int{0, 1, 7} {
		tail := s.follow(&v1.StreamJobLogsRequest{JobId: job, Tail: proto.Int32(int32(n))})
		require.Equal(s.t, digest(want[len(want)-n:]), digest(tail.all()), "tail %d", n)
		require.NotEmpty(s.t, tail.cursor)
	}
}

// series reads the metric series of a job, which its node no longer has.
func (s *site) series(id string) {
	got, err := s.jobs().GetJobSeries(s.ctx(), &v1.GetJobSeriesRequest{JobId: id})
	require.NoError(s.t, err)
	require.Empty(s.t, got.GetMissing())
	require.NotEmpty(s.t, got.GetSeries())
	points := got.GetSeries()[0].GetPoints()
	require.NotEmpty(s.t, points)
	require.EqualValues(s.t, 20_001, points[len(points)-1].GetStep())
}

func TestSurvive_theNodeIsGoneWithItsDisk(t *testing.T) {
	t.Run("directory", func(t *testing.T) { theNodeIsGone(t, "file://"+t.TempDir(), "") })
	t.Run("element of an array", func(t *testing.T) { theNodeIsGone(t, "file://"+t.TempDir(), "[3]") })
	t.Run("bucket", func(t *testing.T) {
		server := s3server.Start(t, porttest.Claim(t), "", "", "")
		t.Setenv("AWS_ACCESS_KEY_ID", s3server.KeyID)
		t.Setenv("AWS_SECRET_ACCESS_KEY", s3server.Secret)
		theNodeIsGone(t, "s3://"+s3server.Bucket+"/site-1?region=us-east-1&path_style=true&endpoint="+url.QueryEscape(server.URL), "[3]")
	})
}

func theNodeIsGone(t *testing.T, archiveURL, element string) {
	s := startSite(t, archiveURL)
	n1 := s.machine("n1", func(c *agent.Config) { c.LogBytes = 8 << 20 })
	gates := filepath.Join(t.TempDir(), "gate")
	id := s.submit(writer(gates, 20_000, 1), asElement(element)) + element
	live := s.follow(&v1.StreamJobLogsRequest{JobId: id})
	live.until(20_000)
	open(t, gates, 1)
	want := text(0, 20_001)
	require.Equal(t, digest(want), digest(live.all()))
	s.awaitJob(id, over)
	m := s.kept(id, 1, final)
	require.Greater(t, len(m.Log), 0)
	n1.perish()
	s.everyWay(id, want)
	metrics, err := s.jobs().GetJobMetrics(s.ctx(), &v1.GetJobMetricsRequest{JobId: id})
	require.NoError(t, err)
	require.EqualValues(t, 20_001, metrics.GetMetrics().AsMap()["step"])
	s.series(id)
	n1.forget()
	s.everyWay(id, want)
	s.series(id)
}

// Agents die and restart while a job writes; followers switch between agent and archive, and see every line once.
func TestSurvive_followersOfAnAgentThatComesAndGoes(t *testing.T) {
	t.Parallel()
	s := startSite(t, "file://"+t.TempDir())
	n1 := s.machine("n1", nil)
	gates := filepath.Join(t.TempDir(), "gate")
	counts := []int{3000, 2000, 2000, 2000}
	id := s.submit(writer(gates, counts...), nil)
	first := s.follow(&v1.StreamJobLogsRequest{JobId: id})
	first.until(3000)
	var others []*follower
	total := 3000
	for round := 1; round < len(counts); round++ {
		s.kept(id, 1, s.printed(total))
		n1.killAgent()
		// The archive has the printed lines; a new follower gets them, and then waits.
		late := s.follow(&v1.StreamJobLogsRequest{JobId: id})
		late.until(total)
		none := s.follow(&v1.StreamJobLogsRequest{JobId: id, Tail: proto.Int32(0)})
		require.True(t, none.next())
		require.NotEmpty(t, none.cursor, "it can go on from here before its first line")
		resumed := s.follow(&v1.StreamJobLogsRequest{JobId: id, Cursor: none.cursor})
		resumed.lines, none.lines = text(0, total), text(0, total)
		// The task keeps writing while its agent is down.
		open(t, gates, round)
		others = append(others, late, none, resumed)
		total += counts[round]
		n1.boot()
		for _, f := range append(others, first) {
			f.until(total)
		}
	}
	for i, f := range append(others, first) {
		require.Equal(t, digest(text(0, total)), digest(f.all()), "follower %d", i)
		require.NoError(t, f.err)
	}
}

// sweep runs short jobs until the agent has removed the directory of a job. It returns false if the agent did not.
func (s *site) sweep(id string, rounds int) bool {
	for range rounds {
		s.awaitJob(s.submit("true", nil), over)
		found, err := filepath.Glob(filepath.Join(s.dir, "n1", "tasks", id+".*"))
		require.NoError(s.t, err)
		if len(found) == 0 {
			return true
		}
	}
	return false
}

// awaitSwept waits until an agent has removed the directory of a job's tasks.
func (s *site) awaitSwept(id string) {
	s.t.Helper()
	s.eventually("a swept directory", func() error {
		if !s.sweep(id, 1) {
			return errors.New("it is there")
		}
		return nil
	})
}

// An agent keeps directories that are not archived yet, and removes them when they are.
func TestSurvive_whatTheAgentSwept(t *testing.T) {
	t.Parallel()
	mount := filepath.Join(t.TempDir(), "share")
	s := startSite(t, "file://"+mount)
	s.machine("n1", func(c *agent.Config) { c.KeepTasks = 1 })
	id := s.submit(writer(filepath.Join(t.TempDir(), "gate"), 500), nil)
	s.awaitJob(id, over)
	require.False(t, s.sweep(id, 25), "the share is not mounted")
	require.NoError(t, os.Mkdir(mount, 0o700))
	s.awaitSwept(id)
	s.everyWay(id, text(0, 500))
}

// After the limit the agent removes the directory all the same, and readers are told.
func TestSurvive_anArchiveThatNeverTakesAnything(t *testing.T) {
	t.Parallel()
	s := startSite(t, "file://"+filepath.Join(t.TempDir(), "share"))
	s.machine("n1", func(c *agent.Config) { c.KeepTasks, c.LogArchive.Wait = 1, time.Millisecond })
	id := s.submit(writer(filepath.Join(t.TempDir(), "gate"), 500), nil)
	s.awaitJob(id, over)
	s.awaitSwept(id)
	f := s.follow(&v1.StreamJobLogsRequest{JobId: id})
	require.Len(t, f.all(), 1)
	require.ErrorContains(t, f.err, "is missing from the start: node n1 no longer has it, and the log archive fails")
}

// The archive has a part, and the node is gone for good: the reader gets the part, then a remark that the rest is
// missing, and then the next attempt.
func TestSurvive_whatIsLostIsSaid(t *testing.T) {
	t.Parallel()
	s := startSite(t, "file://"+t.TempDir())
	n1 := s.machine("n1", nil)
	gates := filepath.Join(t.TempDir(), "gate")
	id := s.submit(writer(gates, 1000)+"[ $MIND_ATTEMPT = 2 ] || sleep 1000", func(req *v1.SubmitJobRequest) {
		req.SchedulingConfig.MaxRetries = proto.Int32(1)
	})
	f := s.follow(&v1.StreamJobLogsRequest{JobId: id})
	f.until(1000)
	m := s.kept(id, 1, s.printed(1000))
	s.machine("n2", nil)
	n1.perish()
	n1.forget()
	s.awaitJob(id, over)
	lost := fmt.Sprintf("the log of job %s, attempt 1, rank 0, is missing after byte %d: node n1 is no longer known, and the log archive ends there", id, m.End(tasks.Log))
	want := append(append(text(0, 1000), "ERROR mind: "+lost), text(0, 1000)...)
	require.Equal(t, want, f.all())
	require.Equal(t, codes.NotFound, grpcstatus.Code(f.err))
	require.ErrorContains(t, f.err, lost)

	past := s.follow(&v1.StreamJobLogsRequest{JobId: id, Attempt: 1})
	require.Equal(t, want[:1001], past.all())
	require.ErrorContains(t, past.err, lost)
	// A reader that resumes in the second attempt does not get the remark about the first again.
	again := s.follow(&v1.StreamJobLogsRequest{JobId: id, Cursor: "2"})
	require.Equal(t, text(0, 1000), again.all())
	require.NoError(t, again.err)
}

func TestSurvive_withoutAnArchiveTheLossIsSaid(t *testing.T) {
	t.Parallel()
	s := startSite(t, "")
	n1 := s.machine("n1", func(c *agent.Config) { c.LogArchive = agent.LogArchive{} })
	gates := filepath.Join(t.TempDir(), "gate")
	id := s.submit(writer(gates, 10), nil)
	s.awaitJob(id, over)
	n1.perish()
	n1.forget()
	f := s.follow(&v1.StreamJobLogsRequest{JobId: id})
	require.Len(t, f.all(), 1)
	require.ErrorContains(t, f.err, "is missing from the start: node n1 is no longer known, and there is no log archive")
	_, err := s.jobs().GetJobMetrics(s.ctx(), &v1.GetJobMetricsRequest{JobId: id})
	require.Equal(t, codes.NotFound, grpcstatus.Code(err))
}
