package fsm_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/once"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// doing drives a machine with commands that have keys.
type doing struct {
	*testing.T
	m     *fsm.Machine
	index uint64
	now   time.Time
}

func newDoing(t *testing.T) *doing {
	return &doing{T: t, m: fsm.New(), now: time.Unix(1_700_000_000, 0)}
}

func (d *doing) apply(c kernel.Command) any {
	data, err := kernel.Encode(level.Newest, c)
	require.NoError(d, err)
	d.index++
	d.now = d.now.Add(time.Millisecond)
	return d.m.Apply(d.index, kernel.Pack(level.Newest, d.now, [][]byte{data}))[0]
}

func (d *doing) once(key string, fingerprint uint64, c kernel.Command) once.Result {
	return d.apply(once.Do{Tenant: "t", User: "u", Key: key, Fingerprint: fingerprint}.Of(c)).(once.Result)
}

func (d *doing) deletes(queue, key string) once.Result {
	return d.once(key, 1, queueverbs.DeleteQueue{Name: queue})
}

func TestOnce_aKeyStandsForOneWrite(t *testing.T) {
	d := newDoing(t)
	d.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "a"}})
	first := d.deletes("a", "k").First.(queueverbs.QueueResult)
	require.Nil(t, first.Refusal)
	again := d.deletes("a", "k")
	require.Nil(t, again.First)
	var result queueverbs.QueueResult
	require.NoError(t, kernel.DecodeResult(again.Again, &result))
	require.Equal(t, first, result)
	require.NotNil(t, d.once("k", 2, queueverbs.DeleteQueue{Name: "a"}).Refusal, "another request")
	other := d.apply(once.Do{Tenant: "t", User: "v", Key: "k", Fingerprint: 1}.Of(queueverbs.DeleteQueue{Name: "a"})).(once.Result)
	require.NotNil(t, other.First.(queueverbs.QueueResult).Refusal, "another user's key is another key")

	require.NotNil(t, d.deletes("b", "later").First.(queueverbs.QueueResult).Refusal)
	d.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "b"}})
	require.Nil(t, d.deletes("b", "later").First.(queueverbs.QueueResult).Refusal, "a refusal is not remembered")

	// A call made two writes, and the first was refused: a repeat of the first does not get the answer to the second.
	mixed := d.once("later", 1, queueverbs.PutQueue{Queue: work.Queue{Name: "c"}})
	require.Nil(t, mixed.Again)
	require.False(t, mixed.Kept)
	require.True(t, d.deletes("b", "later").Kept)

	var image bytes.Buffer
	_, err := d.m.Snapshot().WriteTo(&image)
	require.NoError(t, err)
	hash := d.m.View().Hash()
	d.m = fsm.New()
	require.NoError(t, d.m.Restore(&image))
	require.Equal(t, hash, d.m.View().Hash())
	require.NotEmpty(t, d.deletes("a", "k").Again, "a snapshot has the answers")
	require.Empty(t, fsm.Check(d.m.View()))

	d.now = d.now.Add(25 * time.Hour)
	d.apply(clusterverbs.Tick{})
	require.Zero(t, d.m.View().AnswerCount())
	require.Zero(t, d.m.View().AnswerBytes())
	require.NotNil(t, d.deletes("a", "k").First.(queueverbs.QueueResult).Refusal, "its time is over")
}

func TestOnce_answersAreBounded(t *testing.T) {
	d := newDoing(t)
	for i := range once.MaxAnswers + 100 {
		name := fmt.Sprintf("q%d", i%50)
		d.once(fmt.Sprint(i), 1, queueverbs.PutQueue{Queue: work.Queue{Name: name}})
	}
	v := d.m.View()
	require.Equal(t, once.MaxAnswers, v.AnswerCount())
	require.Less(t, v.AnswerBytes(), once.MaxBytes+1)
	require.NotEmpty(t, d.once(fmt.Sprint(once.MaxAnswers+99), 1, queueverbs.PutQueue{Queue: work.Queue{Name: "q0"}}).Again, "the newest stay")
	require.Nil(t, d.once("0", 1, queueverbs.PutQueue{Queue: work.Queue{Name: "q0"}}).Again, "the oldest go first")
	require.Empty(t, fsm.Check(d.m.View()))
}
