package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func said(job string, latest string) *report {
	return &report{latest: latest, body: &v1.Report{Task: &v1.TaskRef{JobId: job}}}
}

func seqs(batch []*v1.Report) []uint64 {
	out := []uint64{}
	for _, r := range batch {
		out = append(out, r.GetSeq())
	}
	return out
}

func TestOutboxKeepsOrderUntilAcknowledged(t *testing.T) {
	o := newOutbox(10)
	acked := 0
	for range 3 {
		r := said("a", "")
		r.acked = func() { acked++ }
		o.add(r)
	}
	require.Equal(t, []uint64{11, 12, 13}, seqs(o.take()))
	require.Empty(t, o.take())
	o.ack(12)
	require.Equal(t, 2, acked)
	o.add(said("b", ""))
	require.Equal(t, []uint64{14}, seqs(o.take()))
	o.rewind()
	require.Equal(t, []uint64{13, 14}, seqs(o.take()))
	o.ack(14)
	require.Zero(t, o.waiting())
	require.Equal(t, 3, acked)
}

func TestOutboxDropsWhatALaterWordReplaces(t *testing.T) {
	o := newOutbox(0)
	o.add(said("a", "progress"), said("b", "progress"), said("a", "phase"), said("a", ""))
	o.add(said("a", "progress"))
	require.Equal(t, []uint64{2, 3, 4, 5}, seqs(o.take()))
	// What was sent cannot be taken back.
	o.add(said("a", "progress"))
	require.Equal(t, []uint64{6}, seqs(o.take()))
}

func TestOutboxIgnoresAnAckOfWhatThisSessionHasNotSent(t *testing.T) {
	o := newOutbox(0)
	o.add(said("a", ""), said("a", ""))
	require.Len(t, o.take(), 2)
	o.rewind()
	o.ack(2)
	require.Equal(t, 2, o.waiting())
}

func TestOutboxBoundsItsBatches(t *testing.T) {
	o := newOutbox(0)
	for range maxBatch + 1 {
		o.add(said("a", ""))
	}
	require.Len(t, o.take(), maxBatch)
	require.Len(t, o.take(), 1)
}
