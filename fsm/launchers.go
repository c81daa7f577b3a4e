package fsm

import (
	"iter"
	"strings"
)

const (
	recordLauncher = 90

	// MaxLaunchers bounds how many there are: one for each framework, and room for those to come.
	MaxLaunchers = 64
	// MaxLauncherBytes bounds the texts of one, together; maxLauncherTexts their number.
	MaxLauncherBytes = 64 << 10
	maxLauncherTexts = 4096
	maxFrameworkName = 64
)

// Launcher says how the processes of a framework start. It stands in the place of the one that mind comes with; what the
// placeholders in it mean is for those who fill them in.
type Launcher struct {
	Framework       string            `cbor:"1,keyasint,omitempty"`
	Argv            []string          `cbor:"2,keyasint,omitempty"`
	DistributedArgv []string          `cbor:"3,keyasint,omitempty"`
	Environment     map[string]string `cbor:"4,keyasint,omitempty"`
	Hyperparameters []string          `cbor:"5,keyasint,omitempty"`
	TrainingTypes   []string          `cbor:"6,keyasint,omitempty"`
	// Tenant and User are who put it.
	Tenant    string `cbor:"7,keyasint,omitempty"`
	User      string `cbor:"8,keyasint,omitempty"`
	UpdatedAt int64  `cbor:"9,keyasint,omitempty"`
	Revision  uint64 `cbor:"10,keyasint,omitempty"`
}

// PutLauncher replaces the launcher of a framework, for all tenants. UpdatedAt and Revision are set by it.
type PutLauncher struct {
	Launcher Launcher `cbor:"1,keyasint,omitempty"`
	Actor    *Actor   `cbor:"2,keyasint,omitempty"`
}

// DeleteLauncher goes back to the launcher that mind comes with. One that is not there is no failure.
type DeleteLauncher struct {
	Framework string `cbor:"1,keyasint,omitempty"`
	Tenant    string `cbor:"2,keyasint,omitempty"`
	User      string `cbor:"3,keyasint,omitempty"`
	Actor     *Actor `cbor:"4,keyasint,omitempty"`
}

// LauncherResult is the launcher as it was put, nil when none is left, or why nothing was done.
type LauncherResult struct {
	Launcher *Launcher
	Refusal  *Refusal
}

type launcherTables struct {
	rows table[string, *Launcher] // by framework
}

var launcherDomain = domain{
	name: "launchers",
	commands: []commandDef{
		defineCommand[PutLauncher]("PutLauncher"),
		defineCommand[DeleteLauncher]("DeleteLauncher"),
	},
	records: []recordDef{
		defineRecords(recordLauncher, "launcher", func(s *state) *table[string, *Launcher] { return &s.launchers.rows },
			func(s *state, l *Launcher) error { s.launchers.rows.put(l.Framework, l); return nil }),
	},
	open: func(s *state) {
		s.launchers.rows = newTable[string, *Launcher](recordLauncher, func(a, b string) bool { return a < b })
	},
	freeze: func(s, from *state) { s.launchers = launcherTables{rows: from.launchers.rows.freeze()} },
	check:  checkLaunchers,
}

func (l *Launcher) appendFields(f fields) fields {
	f = f.text(l.Framework)
	for _, texts := range [][]string{l.Argv, l.DistributedArgv, l.Hyperparameters, l.TrainingTypes} {
		f = f.num(uint64(len(texts)))
		for _, text := range texts {
			f = f.text(text)
		}
	}
	return f.labels(l.Environment).text(l.Tenant).text(l.User).int(l.UpdatedAt).num(l.Revision)
}

func (PutLauncher) commandType() uint16 { return 19 }

func (c PutLauncher) apply(tx *tx) any {
	l := c.Launcher
	if r := l.validate(); r != nil {
		return LauncherResult{Refusal: r}
	}
	if _, ok := tx.launchers.rows.get(l.Framework); !ok && tx.launchers.rows.len() >= MaxLaunchers {
		return LauncherResult{Refusal: refuse(CodeResourceExhausted, "there are %d launchers already: delete some first", MaxLaunchers)}
	}
	l.UpdatedAt, l.Revision = tx.now, tx.index
	tx.launchers.rows.put(l.Framework, &l)
	return LauncherResult{Launcher: &l}
}

// validate keeps the state small. What a launcher may say is decided before it comes here.
func (l *Launcher) validate() *Refusal {
	switch {
	case l.Framework == "" || len(l.Framework) > maxFrameworkName:
		return refuse(CodeInvalidArgument, "the name of a framework has 1 to %d bytes", maxFrameworkName)
	case len(l.Argv) == 0:
		return refuse(CodeInvalidArgument, "the launcher of %s has no command line", l.Framework)
	}
	texts, bytes, nul := 2, len(l.Tenant)+len(l.User), strings.ContainsRune(l.Tenant+l.User+l.Framework, 0)
	count := func(text string) {
		texts++
		bytes += len(text)
		nul = nul || strings.ContainsRune(text, 0)
	}
	for _, list := range [][]string{l.Argv, l.DistributedArgv, l.Hyperparameters, l.TrainingTypes} {
		for _, text := range list {
			count(text)
		}
	}
	for name, value := range l.Environment { // order-free: sums
		count(name)
		count(value)
	}
	switch {
	case texts > maxLauncherTexts:
		return refuse(CodeInvalidArgument, "the launcher of %s has %d parts; at most %d are kept", l.Framework, texts, maxLauncherTexts)
	case bytes > MaxLauncherBytes:
		return refuse(CodeInvalidArgument, "the launcher of %s is %d bytes; at most %d are kept", l.Framework, bytes, MaxLauncherBytes)
	case nul:
		return refuse(CodeInvalidArgument, "the launcher of %s contains a NUL character", l.Framework)
	}
	return nil
}

func (DeleteLauncher) commandType() uint16 { return 20 }

func (c DeleteLauncher) apply(tx *tx) any {
	if _, ok := tx.launchers.rows.get(c.Framework); ok {
		tx.launchers.rows.delete(c.Framework)
	}
	return LauncherResult{}
}

// Launcher returns what stands in the place of the launcher that mind comes with.
func (s *state) Launcher(framework string) (*Launcher, bool) { return s.launchers.rows.get(framework) }

// Launchers iterates them by framework.
func (s *state) Launchers() iter.Seq[*Launcher] { return s.launchers.rows.rows() }

func checkLaunchers(s *state, report func(string, ...any)) {
	n := 0
	for l := range s.launchers.rows.rows() {
		n++
		if r := l.validate(); r != nil {
			report("a launcher that would not be taken: %s", r.Message)
		}
		if l.Revision > s.meta.Index {
			report("the launcher of %s was put at index %d; this is %d", l.Framework, l.Revision, s.meta.Index)
		}
	}
	if n > MaxLaunchers {
		report("%d launchers, where %d are the most", n, MaxLaunchers)
	}
}
