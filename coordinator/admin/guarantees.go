package admin

import (
	"fmt"
	"strings"

	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

// typeLimits reads limits by type of GPU. A type that no node has ever had is refused: it is most likely misspelled,
// and would limit nothing.
func (s *Service) typeLimits(m map[string]int32) (typed.Limits, error) {
	if len(m) == 0 {
		return nil, nil
	}
	known := s.replica.View().GPUTypes()
	for name, n := range m {
		if n < 0 {
			return nil, call.Bad("max_gpus_by_type", "%s: must be 0 or more; omit the type for no limit", name)
		}
		if len(known) > 0 && !containsFold(known, name) {
			return nil, call.Bad("max_gpus_by_type", "no node has had GPUs of type %q; the types there are: %s", name, strings.Join(known, ", "))
		}
	}
	limits := typed.From(m)
	if !limits.Valid() {
		return nil, call.Bad("max_gpus_by_type", "name each type once, and at most %d of them", typed.MaxLimits)
	}
	return limits, nil
}

func containsFold(all []string, name string) bool {
	for _, one := range all {
		if strings.EqualFold(one, name) {
			return true
		}
	}
	return false
}

func typesOf(l typed.Limits) map[string]int32 {
	if len(l) == 0 {
		return nil
	}
	m := make(map[string]int32, len(l))
	for i := range l {
		m[l[i].Type] = l[i].GPUs
	}
	return m
}

func anyGuaranteed(v *fsm.View) bool {
	for q := range v.Queues() {
		if q.Guaranteed > 0 {
			return true
		}
	}
	return false
}

// overGuaranteed returns a warning if the guarantees of the queues together exceed the cluster; empty: they do not.
func overGuaranteed(v *fsm.View) string {
	sum, has := uint64(0), v.Total().GPUMilli/1000
	for q := range v.Queues() {
		if q.Parent == "" {
			sum += uint64(q.Guaranteed)
		}
	}
	if sum <= has {
		return ""
	}
	return fmt.Sprintf("the queues are guaranteed %d GPUs together, and the cluster has %d: not all guarantees can be kept at once", sum, has)
}
