package fsm

import "fmt"

// state is all there is. A View holds a frozen copy of it; the machine holds the working one.
type state struct {
	meta         meta
	jobs         jobTables
	leases       leaseTables
	nodes        nodeTables
	queues       queueTables
	checkpoints  checkpointTables
	keys         keyTables
	coordinators coordinatorTables
	tokens       tokenTables
	evaluations  evaluationTables
	launchers    launcherTables
	quotas       quotaTables
	audit        auditTables

	// work is nil in a frozen state.
	work *working
}

// domains is the one list. A new domain adds a field above and a line here.
var domains = []domain{
	metaDomain,
	queueDomain,
	quotaDomain, // before the jobs: it decides what class they are of
	nodeDomain,
	jobDomain,
	leaseDomain,
	checkpointDomain,
	keyDomain,
	coordinatorDomain,
	tokenDomain,
	evaluationDomain,
	launcherDomain,
	auditDomain,
}

// domain is one noun of the state: its tables, its commands, how its tables freeze, and what must hold of it.
type domain struct {
	name     string
	commands []commandDef
	records  []recordDef
	// open makes the tables of a new state; freeze replaces those of a shallow copy by frozen ones.
	open   func(s *state)
	freeze func(s *state, from *state)
	// check reports what does not hold.
	check func(v *state, report func(format string, args ...any))
}

// commandDef makes a command known. Numbers are append-only: never reused, never changed.
type commandDef struct {
	number uint16
	name   string
	blank  func() Command
}

// recordDef makes a table known to snapshots and to the hash. Numbers are append-only.
type recordDef struct {
	number  uint16
	name    string
	save    func(s *state, emit func(row any) error) error
	load    func(s *state, data []byte) error
	sum     func(s *state) uint64
	recount func(s *state) uint64
}

var (
	commandDefs = collectCommands()
	recordDefs  = collectRecords()
)

// defineCommand is a line of a domain's command list. P is *T.
func defineCommand[T any, P interface {
	*T
	Command
}](name string) commandDef {
	return commandDef{
		number: P(new(T)).commandType(),
		name:   name,
		blank:  func() Command { return P(new(T)) },
	}
}

// defineRecords is a line of a domain's record list. insert puts a loaded row into the table and into all that is
// derived from it.
func defineRecords[T any, K any, R interface {
	*T
	row
}](number uint16, name string, at func(s *state) *table[K, R], insert func(s *state, r R) error) recordDef {
	return recordDef{
		number: number,
		name:   name,
		save: func(s *state, emit func(any) error) error {
			for r := range at(s).rows() {
				if err := emit(r); err != nil {
					return err
				}
			}
			return nil
		},
		load: func(s *state, data []byte) error {
			r := R(new(T))
			if err := decMode.Unmarshal(data, r); err != nil {
				return err
			}
			return insert(s, r)
		},
		sum:     func(s *state) uint64 { return at(s).sum },
		recount: func(s *state) uint64 { return at(s).recount() },
	}
}

func collectCommands() map[uint16]commandDef {
	defs := map[uint16]commandDef{}
	for _, d := range domains {
		for _, c := range d.commands {
			if other, taken := defs[c.number]; taken {
				panic(fmt.Sprintf("fsm: command number %d is both %s and %s", c.number, other.name, c.name))
			}
			defs[c.number] = c
		}
	}
	return defs
}

func collectRecords() map[uint16]recordDef {
	defs := map[uint16]recordDef{}
	for _, d := range domains {
		for _, r := range d.records {
			if other, taken := defs[r.number]; taken {
				panic(fmt.Sprintf("fsm: record number %d is both %s and %s", r.number, other.name, r.name))
			}
			defs[r.number] = r
		}
	}
	return defs
}

// newState is what there is before the first entry: nothing but the default queue.
func newState() *state {
	s := &state{work: newWorking()}
	for _, d := range domains {
		d.open(s)
	}
	return s
}

// freeze makes the immutable copy that a View holds. It costs a little for each table that changed.
func (s *state) freeze() state {
	s.flush()
	f := *s
	f.work = nil
	for _, d := range domains {
		d.freeze(&f, s)
	}
	return f
}

// hash is the sum over the rows of all tables.
func (s *state) hash() uint64 {
	var sum uint64
	for _, d := range domains {
		for _, r := range d.records {
			sum += r.sum(s)
		}
	}
	return sum
}
