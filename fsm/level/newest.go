package level

import "fmt"

// Released is the highest level of which data may be about: golden logs and lists of fields hold its form, which never changes.
// Newer features open at the level after it, which may still change.
const Released Level = 1

// Newest is the highest level that the code of this version of mind knows: the one after Released when a gate opens there.
// Supported returns the levels of a program, which differ in the program that `make upgrade` upgrades to.
var Newest = Released

// newest is set by the linker, for tests that upgrade a cluster to a level that is not there yet:
// -ldflags "-X github.com/mindcoordinator/mind/fsm/level.newest=2". So nothing is compiled again for them.
var newest string

// linked returns the highest level that this program supports. It ends the program when the linker has set something else
// than one level more.
func linked() Level {
	at, err := parse(newest)
	if err != nil {
		panic(err.Error())
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
