package access

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

func TestCheck_seesADamagedAuditLog(t *testing.T) {
	for name, damage := range map[string]func(*AuditRecord){
		"a changed text": func(r *AuditRecord) { r.User = "nobody" },
		"a gap":          func(r *AuditRecord) { r.Seq++ },
		"another order":  func(r *AuditRecord) { r.Index = 0 },
		"another kind":   func(r *AuditRecord) { r.Action = AuditTokenCreate },
		"the future":     func(r *AuditRecord) { r.Index = 99 },
	} {
		logs := &auditLogs{}
		domain := Audit()
		domain.Open = func(*kernel.State) kernel.Part { return logs }
		m := kernel.New(kernel.Config[kernel.View, int]{
			Registry: kernel.Register(domain), View: func(v *kernel.View) *kernel.View { return v },
		})
		c, err := kernel.Encode(level.Newest, RecordDenials{Denials: []Denial{
			{Code: kernel.CodeUnauthenticated, Count: 1}, {Code: kernel.CodeUnauthenticated, Count: 2}, {Code: kernel.CodeUnauthenticated, Count: 3},
		}})
		require.NoError(t, err)
		m.Apply(1, kernel.Pack(level.Newest, time.Unix(0, 1), [][]byte{c}))
		require.Empty(t, kernel.Check(m.View()))
		damage(&logs.logs[AboutDenials].at(1).AuditRecord)
		require.NotEmpty(t, kernel.Check(m.View()), name)
	}
}

func TestDefineAction_panicsWhereANumberIsTaken(t *testing.T) {
	require.Panics(t, func() { DefineAction(uint8(AuditAccessDeny), "access.again", AboutDenials) })
	require.Equal(t, "access.deny", AuditAccessDeny.String())
}
