package quota

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
)

// Stand is where limits stood when they were last looked at. It is empty before the first look.
type Stand struct {
	// calm: the limits could bar no job, so their numbers did not matter.
	known, calm bool
	quota       *work.Quota
	queues      []*work.Queue
	numbers     []int64
}

// Moved reports whether the answers of the limits may be other ones than when they stood there, for jobs that need up to
// this many thousandths of GPUs. It takes down where they stand now.
func (l *Limits) Moved(s *Stand, most int) bool {
	if l.free(most) {
		moved := !s.known || !s.calm
		s.known, s.calm = true, true
		return moved
	}
	moved := !s.known || s.calm
	s.known, s.calm = true, false
	s.compare(l, &moved)
	return moved
}

// compare takes down the numbers of the limits, and sets moved if they are other ones.
func (s *Stand) compare(l *Limits, moved *bool) {
	at := 0
	number := func(n int64) {
		if at == len(s.numbers) {
			s.numbers = append(s.numbers, n)
			*moved = true
		} else if s.numbers[at] != n {
			s.numbers[at], *moved = n, true
		}
		at++
	}
	models := l.room.readModels()
	number(int64(len(models)))
	var quota *work.Quota
	if t := l.tenant; t != nil && t.quota != nil {
		quota = t.quota
		number(int64(t.usage.GPUMilli))
		number(int64(t.usage.Running))
		if quota.MaxGPUHours != nil && t.spentBy(l.room.now) >= uint64(*quota.MaxGPUHours)*budgets.Hour {
			_, next := budgets.MonthOf(l.room.now / 1e6)
			number(int64(t.spentBy(l.room.now) / budgets.Hour))
			number(next)
		} else {
			number(-1)
		}
		for _, m := range models {
			if _, limited := quota.MaxByType.Of(m.Type); limited {
				number(int64(t.held.at(m.Type)))
			}
		}
	}
	if quota != s.quota {
		s.quota, *moved = quota, true
	}
	if a := l.array; a != nil {
		number(int64(a.live))
		number(int64(a.most))
	}
	same := len(s.queues) == len(l.queue.queues)
	for i, q := range l.queue.queues {
		same = same && s.queues[i] == q.queue
		number(int64(q.gpuMilli))
		for _, m := range models {
			if _, limited := q.queue.MaxByType.Of(m.Type); limited {
				number(int64(q.held.at(m.Type)))
			}
		}
	}
	if !same {
		*moved = true
		s.queues = s.queues[:0]
		for _, q := range l.queue.queues {
			s.queues = append(s.queues, q.queue)
		}
	}
	if at != len(s.numbers) {
		s.numbers, *moved = slices.Clone(s.numbers[:at]), true
	}
}
