package power

import (
	"fmt"
	"slices"
	"strings"
)

// Mutant is a mistake in the code of Mind that a power cut must bring to light: it shows that the checks can fail.
type Mutant struct {
	Name    string
	What    string
	Changes []Change
}

// Mutants are the known ones.
var Mutants = []Mutant{
	{
		"log-is-not-synced", "entries are acknowledged before they are on the disk",
		[]Change{{"raftnode/stores.go", "Path: path,\n\t\tBoltOptions:", "Path: path, NoSync: true,\n\t\tBoltOptions:"}},
	},
	{
		"epoch-is-not-synced", "an agent uses an epoch before it is on the disk",
		[]Change{{
			"agent/agent.go", "shim.WriteDurably(filepath.Dir(name), filepath.Base(name), binary.BigEndian.AppendUint64(nil, epoch))",
			"os.WriteFile(name, binary.BigEndian.AppendUint64(nil, epoch), 0o600)",
		}},
	},
	{
		"roster-is-not-synced", "an agent tells the leader of a roster before it is on the disk",
		[]Change{
			{"agent/roster.go", "\tif err := file.Sync(); err != nil {\n\t\treturn err\n\t}\n", ""},
			{"agent/roster.go", "return parent.Sync()", "return nil"},
		},
	},
	{
		"quarantine-is-not-synced", "an agent tells of a GPU that is set aside before that is on the disk",
		[]Change{{"agent/quarantine.go", "shim.WriteDurably(dir, gpusFile, data)", "func() error { _ = shim.WriteDurably; return os.WriteFile(filepath.Join(dir, gpusFile), data, 0o600) }()"}},
	},
}

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
