package order

import "math"

// Urgency bounds how urgent some jobs are: none has a higher priority, and none was submitted before a time.
type Urgency struct {
	Priority uint8
	// Since is in Unix nanoseconds; math.MaxInt64 if there are no jobs.
	Since int64
}

// nobody is the urgency of no jobs.
var nobody = Urgency{Since: math.MaxInt64}

// Add makes the urgency hold for other jobs, too.
func (u *Urgency) Add(other Urgency) {
	u.Priority, u.Since = max(u.Priority, other.Priority), min(u.Since, other.Since)
}

func (u *Urgency) addAll(all []oldest) {
	for i := range all {
		u.Add(Urgency{all[i].priority, all[i].created})
	}
}

// Soonest returns at most the Rank.Above of each of the jobs.
func (r *Ranking) Soonest(u Urgency) int {
	if u.Since == math.MaxInt64 {
		return math.MaxInt
	}
	return -int(u.Priority) - r.steps(r.Now-u.Since)
}

// Urgency returns the urgency of the jobs of a class.
func (k *Kept) Urgency(c *Class) Urgency {
	u := nobody
	for _, l := range k.of(c) {
		u.addAll(l.oldest)
	}
	return u
}

// UrgencyOf returns the same as Kept.Urgency, and reads the lanes.
func UrgencyOf(v View, r *Ranking, c *Class) Urgency {
	u := nobody
	for key := range v.Lanes(c.Key) {
		u.addAll(oldestOf(v, r, key))
	}
	return u
}
