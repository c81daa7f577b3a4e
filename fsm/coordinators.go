package fsm

import (
	"iter"
	"slices"
)

const recordCoordinator = 60

type coordinatorTables struct {
	rows table[string, *Coordinator]
}

var coordinatorDomain = domain{
	name: "coordinators",
	commands: []commandDef{
		defineCommand[PutCoordinator]("PutCoordinator"),
		defineCommand[DeleteCoordinator]("DeleteCoordinator"),
	},
	records: []recordDef{
		defineRecords(recordCoordinator, "coordinator",
			func(s *state) *table[string, *Coordinator] { return &s.coordinators.rows },
			func(s *state, c *Coordinator) error { s.coordinators.rows.put(c.ID, c); return nil }),
	},
	open: func(s *state) {
		s.coordinators.rows = newTable[string, *Coordinator](recordCoordinator, func(a, b string) bool { return a < b })
	},
	freeze: func(s, from *state) { s.coordinators = coordinatorTables{rows: from.coordinators.rows.freeze()} },
	check:  func(*state, func(string, ...any)) {},
}

func (PutCoordinator) commandType() uint16 { return 9 }

func (c PutCoordinator) apply(tx *tx) any {
	row := c.Coordinator
	if row.ID == "" {
		return CoordinatorResult{Refusal: refuse(CodeInvalidArgument, "a coordinator needs an id")}
	}
	if old, ok := tx.coordinators.rows.get(row.ID); ok && *old == row {
		return CoordinatorResult{}
	}
	tx.coordinators.rows.put(row.ID, &row)
	tx.emit(Event{Topic: TopicCoordinator, Name: row.ID})
	return CoordinatorResult{}
}

func (DeleteCoordinator) commandType() uint16 { return 10 }

func (c DeleteCoordinator) apply(tx *tx) any {
	if _, ok := tx.coordinators.rows.get(c.ID); !ok {
		return CoordinatorResult{Refusal: refuse(CodeNotFound, "there is no coordinator %q", c.ID)}
	}
	tx.coordinators.rows.delete(c.ID)
	tx.emit(Event{Topic: TopicCoordinator, Name: c.ID})
	return CoordinatorResult{}
}

// forgetCoordinators drops all but those that are to stay.
func (tx *tx) forgetCoordinators(stay []string) {
	var gone []string
	for c := range tx.Coordinators() {
		if !slices.Contains(stay, c.ID) {
			gone = append(gone, c.ID)
		}
	}
	for _, id := range gone {
		tx.coordinators.rows.delete(id)
		tx.emit(Event{Topic: TopicCoordinator, Name: id})
	}
}

// Coordinator returns a replica by its id.
func (s *state) Coordinator(id string) (*Coordinator, bool) { return s.coordinators.rows.get(id) }

// Coordinators iterates the replicas by id.
func (s *state) Coordinators() iter.Seq[*Coordinator] { return s.coordinators.rows.rows() }
