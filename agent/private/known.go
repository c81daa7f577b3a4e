package private

import (
	"path/filepath"
	"sync"
	"time"
)

// freshness is how long the spots of private paths are used again. A launch asks about many paths, and only the operator can
// change where private ones lead.
const freshness = 100 * time.Millisecond

// known keeps the spots of the private paths that exist. One that does not exist is looked for each time: it is private from the
// moment on at which it is made.
type known struct {
	mu     sync.Mutex
	looked time.Time
	table  []mount
	spots  map[string][]spot // by private path, with the directories that are mounted below it
}

// all returns the spots of the private paths that exist.
func (k *known) all(paths []string, table []mount) (all []spot, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) > freshness || !same(k.table, table) {
		k.looked, k.table, k.spots = time.Now(), table, make(map[string][]spot)
	}
	for _, path := range paths {
		spots, ok := k.spots[path]
		if !ok {
			resolved, err := filepath.EvalSymlinks(path)
			if err != nil {
				continue // it does not exist
			}
			at, err := locate(table, resolved)
			if err != nil {
				return nil, err
			}
			spots = append(below(table, resolved), at)
			k.spots[path] = spots
		}
		all = append(all, spots...)
	}
	return all, nil
}

// same reports whether two tables are one: a table is never changed, only replaced.
func same(a, b []mount) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
