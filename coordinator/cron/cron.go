// Package cron computes when a cron expression is next due in a time zone.
//
// Guarantees. Next returns a time later than its argument. When clocks are turned forward, a fixed time of day that
// does not exist is due as much later as the clocks are turned. When they are turned back, a time of day that occurs
// twice is due once, the first time. An expression with any minute or any hour ("*/30 * * * *") follows elapsed time,
// so none of its times is left out. These are the rules of the cron of Debian (Vixie cron).
//
// The time zones are those of the machine, or those that are linked into the binary if it has none.
package cron

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // Containers often have no time zones.

	"github.com/robfig/cron/v3"
)

// Times are the times at which an expression is due.
type Times struct {
	zone *time.Location
	// real follows elapsed time. wall follows the local clock, as on a day without a change of the offset.
	real, wall cron.SpecSchedule
	byClock    bool
}

// MaxExpression bounds an expression; bytes.
const MaxExpression = 256

// anyValue is the library's mark of a field with a star.
const anyValue = 1 << 63

var (
	errEvery = errors.New("@every is not supported, because it depends on when counting begins: use for example */15 * * * *")
	errZone  = errors.New("the time zone does not belong into the expression: give it as timezone")
	errNever = errors.New("there is no such day: it would never be due")
)

// Zone returns a time zone of the IANA database; empty: UTC.
func Zone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New("the time zone Local is another one on each coordinator: use a name such as Europe/Berlin, or UTC")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("there is no time zone %.60q: use a name such as Europe/Berlin, or UTC", name)
	}
	return zone, nil
}

// Parse reads an expression with five fields (minute, hour, day of the month, month, day of the week), or one such as @daily.
func Parse(expression string, zone *time.Location) (*Times, error) {
	switch {
	case len(expression) > MaxExpression:
		return nil, fmt.Errorf("it has %d bytes, and at most %d are allowed", len(expression), MaxExpression)
	case strings.Contains(expression, "TZ="):
		return nil, errZone
	case strings.HasPrefix(expression, "@every"):
		return nil, errEvery
	}
	parsed, err := cron.ParseStandard(expression)
	if err != nil {
		return nil, fmt.Errorf("%w: it has five fields, minute, hour, day of the month, month and day of the week, such as 30 2 * * 1-5", err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errEvery
	}
	t := &Times{zone: zone, real: *spec, wall: *spec, byClock: !star(expression, 0, spec.Minute) && !star(expression, 1, spec.Hour)}
	t.real.Location, t.wall.Location = zone, time.UTC
	if t.Next(time.Now()).IsZero() {
		return nil, errNever
	}
	return t, nil
}

// star reports whether a field begins with a star. The library does not take one with a step for one.
func star(expression string, field int, bits uint64) bool {
	fields := strings.Fields(expression)
	return bits&anyValue != 0 || field < len(fields) && strings.HasPrefix(fields[field], "*")
}

// Next returns the first due time later than after; zero: there is none in the next years.
func (t *Times) Next(after time.Time) time.Time {
	if !t.byClock {
		return t.real.Next(after.In(t.zone)).UTC()
	}
	// The local clock's reading, as if it were UTC.
	shown := after.In(t.zone)
	wall := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), shown.Second(), 0, time.UTC)
	// A clock that was turned back has shown some readings before, and one that was turned forward has skipped some.
	for wall = t.wall.Next(wall.Add(-aDay)); !wall.IsZero(); wall = t.wall.Next(wall) {
		if at := t.when(wall); at.After(after) {
			return at
		}
	}
	return time.Time{}
}

const aDay = 24 * time.Hour

// when returns the first time at which the local clock shows a reading, or would have shown it if it had not been
// turned forward.
func (t *Times) when(wall time.Time) time.Time {
	before, after := t.offset(wall.Add(-aDay)), t.offset(wall.Add(aDay))
	first, second := wall.Add(-before), wall.Add(-after)
	if t.offset(first) != before && t.offset(second) == after {
		return second
	}
	return first
}

// offset returns how far ahead of UTC the zone is at a time.
func (t *Times) offset(at time.Time) time.Duration {
	_, seconds := at.In(t.zone).Zone()
	return time.Duration(seconds) * time.Second
}

// Newest returns the newest due time that is not later than now, and the number of due times from first on that it
// passed. It counts up to most times one by one, and then searches for the newest one.
func (t *Times) Newest(first, now time.Time, most uint64) (newest time.Time, passed uint64) {
	newest = first
	for {
		next := t.Next(newest)
		if next.IsZero() || next.After(now) {
			return newest, passed
		}
		newest = next
		if passed++; passed < most {
			continue
		}
		// Far too many times have passed: search backwards from now.
		for back := time.Minute; now.Add(-back).After(newest); back *= 2 {
			if near := t.Next(now.Add(-back)); !near.IsZero() && !near.After(now) {
				newest = near
				break
			}
		}
		most = ^uint64(0)
	}
}
