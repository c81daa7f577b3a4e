package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// term is a time in which a coordinator led, according to its log; to is zero while it leads.
type term struct {
	who      string
	from, to time.Time
}

var (
	termBegins = regexp.MustCompile(`^time=(\S+) level=INFO msg=leading component=\S+ coordinator=\S+ term=`)
	termEnds   = regexp.MustCompile(`^time=(\S+) level=INFO msg="leading no longer" `)
)

func termsIn(who, log string) (all []term, err error) {
	for line := range strings.Lines(log) {
		switch {
		case termBegins.MatchString(line):
			at, err := time.Parse(time.RFC3339, termBegins.FindStringSubmatch(line)[1])
			if err != nil {
				return nil, fmt.Errorf("log of %s: %w", who, err)
			}
			all = append(all, term{who: who, from: at})
		case termEnds.MatchString(line) && len(all) > 0:
			at, err := time.Parse(time.RFC3339, termEnds.FindStringSubmatch(line)[1])
			if err != nil {
				return nil, fmt.Errorf("log of %s: %w", who, err)
			}
			all[len(all)-1].to = at
		}
	}
	return all, nil
}

// steady checks that one coordinator leads, from at most within after begun to the end. It returns a description of the
// violation, or "".
func steady(all []term, begun, end time.Time, within time.Duration) string {
	var seen []string
	for _, r := range slices.SortedFunc(slices.Values(all), func(a, b term) int { return a.from.Compare(b.from) }) {
		over := !r.to.IsZero() && r.to.Before(end)
		if !r.from.After(begun.Add(within)) && !over {
			return ""
		}
		switch {
		case r.from.After(end), over && r.to.Before(begun):
			continue
		case over:
			seen = append(seen, fmt.Sprintf("%s from %.1f s to %.1f s", r.who, max(0, r.from.Sub(begun).Seconds()), r.to.Sub(begun).Seconds()))
		default:
			seen = append(seen, fmt.Sprintf("%s from %.1f s on", r.who, r.from.Sub(begun).Seconds()))
		}
	}
	if len(seen) == 0 {
		return fmt.Sprintf("nobody led in %.0f s", end.Sub(begun).Seconds())
	}
	return fmt.Sprintf("in %.0f s led %s", end.Sub(begun).Seconds(), strings.Join(seen, ", "))
}

// lost returns when the leader at a time was lost. It returns that time if there was no leader, and end if the leader
// was never lost.
func lost(all []term, at, end time.Time) time.Time {
	for _, r := range all {
		switch {
		case r.from.After(at), !r.to.IsZero() && r.to.Before(at):
		case r.to.IsZero(), r.to.After(end):
			return end
		default:
			return r.to
		}
	}
	return at
}

// terms returns the terms according to the logs of the coordinators.
func (f *Fight) terms() (all []term, err error) {
	info, err := f.Cluster.Info()
	if err != nil {
		return nil, err
	}
	for _, p := range info.Coordinators {
		log, err := f.logOf(p)
		if err != nil {
			return nil, err
		}
		of, err := termsIn(p.ID, log)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// requireLeader records a violation unless one of the terms covers the time from at most within after begun until end.
func (f *Fight) requireLeader(all []term, begun, end time.Time, within time.Duration) {
	if why := steady(all, begun, end, within); why != "" {
		f.result.Leaderless = append(f.result.Leaderless, fmt.Sprintf("round %d: %s", f.Round, why))
	}
}

// note adds a remark to the result.
func (f *Fight) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	f.result.Notes = append(f.result.Notes, text)
	f.Log("%s", text)
}
