package leader

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// holder is a shim that records its deadlines.
type holder struct {
	told []shim.Deadline
	err  error
}

func (h *holder) SetDeadline(d shim.Deadline) error {
	h.told = append(h.told, d)
	return h.err
}

func TestAShimIsToldItsDeadlineSeldomWhileItIsFar(t *testing.T) {
	now := int64(1000 * time.Second)
	l := NewLeases("n1", lease.Timing{}, 0, func() int64 { return now }, slog.New(slog.DiscardHandler))
	id := taskid.ID{Job: "job_1", Attempt: 1, Token: 1}
	l.Want(id, &v1.TaskSpec{LeaseMs: 60_000, Replaceable: true})
	renew := func() {
		seq, _ := l.Renewal()
		require.True(t, l.Acked(seq))
	}
	renew()
	require.Equal(t, now, l.Launched(id).Renewed)
	h := &holder{}
	l.Attach(id, h)
	minute := func(renewed bool) int {
		h.told = nil
		for range 120 {
			now += int64(time.Second / 2)
			if renewed {
				renew()
			}
			l.tell()
		}
		return len(h.told)
	}
	require.InDelta(t, 10, minute(true), 1, "a tenth of the lease is a step")
	require.LessOrEqual(t, minute(false), 1, "nothing was renewed")
	h.err = errors.New("the shim is busy")
	renew()
	h.told = nil
	l.tell()
	l.tell()
	require.Len(t, h.told, 2, "a shim that did not take it is told again")
	l.Attach(id, nil)
	now += int64(time.Minute)
	renew()
	h.told = nil
	l.tell()
	require.Empty(t, h.told)
}

func TestRelays_nothingWaitsOnceTheCallIsOver(t *testing.T) {
	r := NewRelays()
	require.ErrorIs(t, r.pass(t.Context(), &v1.Renewal{NodeId: "n2", Seq: 1}), errNoSession)
	renewals, end := r.open()
	bounded, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.Error(t, r.pass(bounded, &v1.Renewal{NodeId: "n2", Seq: 1}))
	require.Empty(t, r.waiting)
	passed := make(chan error, 1)
	go func() { passed <- r.pass(t.Context(), &v1.Renewal{NodeId: "n2", Seq: 2}) }()
	require.EqualValues(t, 2, (<-renewals).GetSeq())
	r.acked(&v1.RenewalAck{NodeId: "n2", Seq: 2})
	require.NoError(t, <-passed)
	require.Empty(t, r.waiting)
	go func() { passed <- r.pass(t.Context(), &v1.Renewal{NodeId: "n2", Seq: 3}) }()
	<-renewals
	end()
	require.ErrorIs(t, <-passed, errNoSession)
	require.Empty(t, r.waiting)
}

func TestADamagedRosterIsNone(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, writeRoster(dir, &v1.Roster{Version: 7, Members: []*v1.RosterMember{{NodeId: "n1"}, {NodeId: "n2"}}}))
	name := filepath.Join(dir, RosterFile)
	roster, err := readRoster(name)
	require.NoError(t, err)
	require.EqualValues(t, 7, roster.GetVersion())
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, damaged := range [][]byte{nil, data[:3], data[:len(data)-1], append([]byte{data[0] ^ 1}, data[1:]...)} {
		require.NoError(t, os.WriteFile(name, damaged, 0o600))
		_, err := readRoster(name)
		require.Error(t, err)
		leases := NewLeases("n1", lease.Timing{}, 0, func() int64 { return 1 }, slog.New(slog.DiscardHandler))
		require.Empty(t, NewRosters(dir, "n1", leases, slog.New(slog.DiscardHandler)).others())
		require.Zero(t, leases.RosterVersion())
	}
}
