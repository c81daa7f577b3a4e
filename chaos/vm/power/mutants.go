package power

import (
	"fmt"
	"slices"
	"strings"
)

// Mutant is a mistake in the code of Mind that power cuts must reveal. It shows that the checks can fail.
type Mutant struct {
	Name    string
	What    string
	Changes []Change
}

// Mutants are the known mutants.
var Mutants = []Mutant{
	{
		"log-is-not-synced", "entries are acknowledged before they are on the disk, with the log in wal/",
		slices.Concat(logStores["wal"], []Change{
			{"raftnode/store/segments.go", "segment.NewFiler(dir, walfs.New())", "segment.NewFiler(dir, unsynced{walfs.New()})"},
			{"raftnode/store/segments.go", "// beginWatch remembers", unsynced + "\n\n// beginWatch remembers"},
		}),
	},
	{
		"boltdb-is-not-synced", "entries are acknowledged before they are on the disk, with the log in BoltDB",
		slices.Concat(logStores["boltdb"], []Change{
			{"raftnode/store/store.go", "Path: path,\n\t\tBoltOptions:", "Path: path, NoSync: true,\n\t\tBoltOptions:"},
		}),
	},
	{
		"files-are-not-synced", "files that must be found again get their names before they are on the disk",
		[]Change{{"durable/durable.go", "err := f.file.Sync()", "err := error(nil)"}},
	},
	{
		"names-are-not-synced", "files that must be found again are on the disk before their names are",
		[]Change{{"durable/durable.go", "return f.disk.SyncDir(filepath.Dir(f.name))", "return nil"}},
	},
}

// unsynced is the source of a file system for raft-wal that does not sync: raft-wal has no option for that.
const unsynced = `
type unsynced struct{ types.VFS }

func (u unsynced) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := u.VFS.Create(dir, name, size)
	return unsyncedFile{f}, err
}

func (u unsynced) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := u.VFS.OpenWriter(dir, name)
	return unsyncedFile{f}, err
}

type unsyncedFile struct{ types.WritableFile }

func (unsyncedFile) Sync() error { return nil }`

// FindMutant returns the mutant of a name.
func FindMutant(name string) (Mutant, error) {
	at := slices.IndexFunc(Mutants, func(m Mutant) bool { return m.Name == name })
	if at < 0 {
		var names []string
		for _, m := range Mutants {
			names = append(names, m.Name)
		}
		return Mutant{}, fmt.Errorf("there is no mutant %q: they are %s", name, strings.Join(names, ", "))
	}
	return Mutants[at], nil
}
