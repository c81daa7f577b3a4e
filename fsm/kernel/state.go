package kernel

import "github.com/mindcoordinator/mind/fsm/level"

// State is the meta row and the parts of all domains. The machine holds the working one; a view holds a frozen copy.
type State struct {
	registry *Registry
	meta     MetaRow
	base     *Base
	parts    []Part
	// names is nil in a frozen state.
	names *names
}

func newState(r *Registry) *State {
	s := &State{registry: r, meta: r.meta.New(), names: &names{}}
	s.base = s.meta.Kernel()
	for _, d := range r.domains {
		if d.Open != nil {
			s.parts = append(s.parts, d.Open(s))
		}
	}
	return s
}

// PartOf returns the part of a domain by its type. That a list of domains lacks it is a mistake in the program.
func PartOf[P Part](s *State) P {
	for _, p := range s.parts {
		if found, ok := p.(P); ok {
			return found
		}
	}
	var none P
	return none
}

// Meta returns the meta row. Code that changes it calls Touch.
func (s *State) Meta() MetaRow { return s.meta }

// Index is that of the last entry in this state; while an entry is applied, it is that of the entry.
func (s *State) Index() uint64 { return s.base.Index }

// Now is log time, Unix nanoseconds.
func (s *State) Now() int64 { return s.base.Now }

// Voters are the ids of the replicas that vote.
func (s *State) Voters() []string { return append([]string(nil), s.base.Voters...) }

// Level is the feature level: what may be written. It never falls.
func (s *State) Level() level.Level { return max(s.base.Level, level.Base) }

// VotersIndex is the index of the newest configuration of the voters in this state.
func (s *State) VotersIndex() uint64 { return s.base.VotersIndex }

// Raise makes a level that of the state, if it is higher.
func (s *State) Raise(to level.Level) {
	s.base.Level = max(s.base.Level, to)
	s.base.Touch()
}

// Intern returns one shared copy of a text that many rows will hold.
func (s *State) Intern(text string) string { return s.names.intern(text) }

// freeze makes the immutable copy that a view holds.
func (s *State) freeze() *State {
	f := &State{registry: s.registry, meta: s.meta.Copy(), parts: make([]Part, len(s.parts))}
	f.base = f.meta.Kernel()
	for i, p := range s.parts {
		f.parts[i] = p.Freeze(f)
	}
	return f
}

// hash is the sum over the rows of all kinds.
func (s *State) hash() uint64 {
	var sum uint64
	for i := range s.registry.records {
		sum += s.registry.records[i].Sum(s)
	}
	return sum
}

// names shares texts. It saves memory only, and changes no answer.
type names struct{ known map[string]string }

// maxNames bounds the table of names; when it is full it starts again.
const maxNames = 1 << 16

func (n *names) intern(text string) string {
	if shared, ok := n.known[text]; ok {
		return shared
	}
	if n.known == nil || len(n.known) >= maxNames {
		n.known = map[string]string{}
	}
	n.known[text] = text
	return text
}
