package domains

// Between is the demand of a gang on the domains of its nodes.
type Between uint8

const (
	// Anywhere asks nothing.
	Anywhere Between = iota
	// Same: all tasks, or the tasks of each segment, are in one domain. A job waits for it.
	Same
	// Prefer: in the fewest domains that can hold the job now.
	Prefer
	// Spread: in as many domains as can hold a task now.
	Spread
)

var names = [...]string{Anywhere: "", Same: "same_domain", Prefer: "prefer", Spread: "spread"}

// Valid says whether b is one of the constants.
func (b Between) Valid() bool { return int(b) < len(names) }

// String is the name in requests.
func (b Between) String() string {
	if !b.Valid() {
		return "unknown"
	}
	return names[b]
}

// Parse is the Between of a name in requests.
func Parse(name string) (Between, bool) {
	for b := Same; b.Valid(); b++ {
		if names[b] == name {
			return b, true
		}
	}
	return Anywhere, false
}

// Split finds the first segment of a gang whose ranks are not all in one domain, and returns its first rank. of is the domain
// of the node of a rank, empty for none. A segment of 0 is the whole gang. false: every segment is in one domain.
func Split(ranks, segment int, of func(rank int) string) (first int, split bool) {
	if segment <= 0 {
		segment = ranks
	}
	for first = 0; first < ranks; first += segment {
		domain := of(first)
		for rank := first; rank < min(first+segment, ranks); rank++ {
			if domain == "" || of(rank) != domain {
				return first, true
			}
		}
	}
	return 0, false
}
