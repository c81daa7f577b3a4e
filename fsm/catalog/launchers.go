// Package catalog has the launchers: how the processes of each framework start, where operators have replaced what mind
// comes with.
//
// It bounds how many there are and how large they are. Its contents, and the meaning of its placeholders, are checked before
// it comes here.
package catalog

import (
	"iter"
	"strings"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
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
	// Tenant and User put it.
	Tenant    string `cbor:"7,keyasint,omitempty"`
	User      string `cbor:"8,keyasint,omitempty"`
	UpdatedAt int64  `cbor:"9,keyasint,omitempty"`
	Revision  uint64 `cbor:"10,keyasint,omitempty"`
}

// PutLauncher replaces the launcher of a framework, for all tenants. UpdatedAt and Revision are set by it.
type PutLauncher struct {
	Launcher Launcher      `cbor:"1,keyasint,omitempty"`
	Actor    *access.Actor `cbor:"2,keyasint,omitempty"`
}

// DeleteLauncher goes back to the launcher that mind comes with. One that is not there is no failure.
type DeleteLauncher struct {
	Framework string        `cbor:"1,keyasint,omitempty"`
	Tenant    string        `cbor:"2,keyasint,omitempty"`
	User      string        `cbor:"3,keyasint,omitempty"`
	Actor     *access.Actor `cbor:"4,keyasint,omitempty"`
}

// LauncherResult is the launcher as it was put, nil when none is left, or why nothing was done.
type LauncherResult struct {
	Launcher *Launcher
	Refusal  *kernel.Refusal
}

// tables is the part of the state that this package keeps.
type tables struct {
	launchers kernel.Table[string, *Launcher] // by framework
}

func (t *tables) Freeze(*kernel.State) kernel.Part { return &tables{launchers: t.launchers.Freeze()} }

func of(s *kernel.State) *tables { return kernel.PartOf[*tables](s) }

// Domain is all that this package is to the state.
func Domain() kernel.Domain {
	return kernel.Domain{
		Name: "launchers",
		Open: func(*kernel.State) kernel.Part {
			return &tables{launchers: kernel.NewTable[string, *Launcher](recordLauncher, func(a, b string) bool { return a < b })}
		},
		Commands: []kernel.CommandDef{
			kernel.Define("PutLauncher", putLauncher, auditPut),
			kernel.Define("DeleteLauncher", deleteLauncher, auditDelete),
		},
		Records: []kernel.RecordDef{
			kernel.Rows(recordLauncher, "launcher", func(s *kernel.State) *kernel.Table[string, *Launcher] { return &of(s).launchers },
				func(s *kernel.State, l *Launcher) error { of(s).launchers.Put(l.Framework, l); return nil }),
		},
		Check: check,
	}
}

func (l *Launcher) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Text(l.Framework)
	for _, texts := range [][]string{l.Argv, l.DistributedArgv, l.Hyperparameters, l.TrainingTypes} {
		f = f.Num(uint64(len(texts)))
		for _, text := range texts {
			f = f.Text(text)
		}
	}
	return f.Labels(l.Environment).Text(l.Tenant).Text(l.User).Int(l.UpdatedAt).Num(l.Revision)
}

// CommandNumber implements kernel.Command.
func (PutLauncher) CommandNumber() uint16 { return 19 }

func putLauncher(tx *kernel.Tx, c *PutLauncher) LauncherResult {
	t := of(tx.State)
	l := c.Launcher
	if r := l.validate(); r != nil {
		return LauncherResult{Refusal: r}
	}
	if _, ok := t.launchers.Get(l.Framework); !ok && t.launchers.Len() >= MaxLaunchers {
		return LauncherResult{Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyLaunchers, MaxLaunchers)}
	}
	l.UpdatedAt, l.Revision = tx.Now(), tx.Index()
	t.launchers.Put(l.Framework, &l)
	return LauncherResult{Launcher: &l}
}

// validate keeps the state small. Its contents are checked before it comes here.
func (l *Launcher) validate() *kernel.Refusal {
	switch {
	case l.Framework == "" || len(l.Framework) > maxFrameworkName:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.BadFrameworkName, maxFrameworkName)
	case len(l.Argv) == 0:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.LauncherWithoutCommand, l.Framework)
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
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.LauncherTooManyParts, l.Framework, texts, maxLauncherTexts)
	case bytes > MaxLauncherBytes:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.LauncherTooLarge, l.Framework, bytes, MaxLauncherBytes)
	case nul:
		return kernel.Refuse(kernel.CodeInvalidArgument, reason.LauncherWithNUL, l.Framework)
	}
	return nil
}

// CommandNumber implements kernel.Command.
func (DeleteLauncher) CommandNumber() uint16 { return 20 }

func deleteLauncher(tx *kernel.Tx, c *DeleteLauncher) LauncherResult {
	t := of(tx.State)
	if _, ok := t.launchers.Get(c.Framework); ok {
		t.launchers.Delete(c.Framework)
	}
	return LauncherResult{}
}

// AuditLauncherPut and AuditLauncherDelete are the actions in the audit log.
var (
	AuditLauncherPut    = access.DefineAction(18, "launcher.put", access.AboutOperation)
	AuditLauncherDelete = access.DefineAction(19, "launcher.delete", access.AboutOperation)
)

func auditPut(tx *kernel.Tx, c *PutLauncher, result LauncherResult) {
	r := access.AuditRecord{Action: AuditLauncherPut, Object: c.Launcher.Framework, Message: reason.Text(strings.Join(c.Launcher.Argv, " "))}
	access.Record(tx, c.Actor, r, result.Refusal)
}

func auditDelete(tx *kernel.Tx, c *DeleteLauncher, result LauncherResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditLauncherDelete, Object: c.Framework}, result.Refusal)
}

// View reads the launchers of a frozen state.
type View struct{ t *tables }

// ViewOf returns the launchers of a view.
func ViewOf(v *kernel.View) View { return View{of(v.State())} }

// Launcher returns what stands in the place of the launcher that mind comes with.
func (v View) Launcher(framework string) (*Launcher, bool) { return v.t.launchers.Get(framework) }

// Launchers iterates them by framework.
func (v View) Launchers() iter.Seq[*Launcher] { return v.t.launchers.Rows() }

func check(s *kernel.State, report kernel.Report) {
	n := 0
	for l := range of(s).launchers.Rows() {
		n++
		if r := l.validate(); r != nil {
			report("a launcher that would not be taken: %s", r.Reason)
		}
		if l.Revision > s.Index() {
			report("the launcher of %s was put at index %d; this is %d", l.Framework, l.Revision, s.Index())
		}
	}
	if n > MaxLaunchers {
		report("%d launchers, where %d are the most", n, MaxLaunchers)
	}
}
