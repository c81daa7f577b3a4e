package level

import "fmt"

// Newest is the highest level that the code of this version of mind knows. Supported returns the levels of a program, which differ in
// the program that `make upgrade` upgrades to.
const Newest Level = 1

// newest is set by the linker, for tests that upgrade a cluster to a level that is not there yet:
// -ldflags "-X github.com/mindcoordinator/mind/fsm/level.newest=2". So nothing is compiled again for them.
var newest string

// linked is the highest level that this program supports.
var linked = mustParse(newest)

// mustParse ends the program when the linker has set something else than one level more.
func mustParse(newest string) Level {
	at, err := parse(newest)
	if err != nil {
		panic(err.Error())
	}
	if at > Newest {
		NewGate(at, "the level that tests upgrade to")
	}
	return at
}

func parse(newest string) (Level, error) {
	switch newest {
	case "", fmt.Sprint(Newest):
		return Newest, nil
	case fmt.Sprint(Newest + 1):
		return Newest + 1, nil
	}
	return 0, fmt.Errorf("this program was linked with the feature level %q as its newest: build it without -X level.newest, or with %d", newest, Newest+1)
}
