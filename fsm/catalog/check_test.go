package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

func TestCheck_canFail(t *testing.T) {
	for name, c := range map[string]struct {
		row  Launcher
		says string
	}{
		"a launcher without argv": {Launcher{Framework: "X"}, "a launcher that would not be taken"},
		"a launcher of tomorrow":  {Launcher{Framework: "X", Argv: []string{"run"}, Revision: 1 << 40}, "was put at index"},
	} {
		t.Run(name, func(t *testing.T) {
			domain := Domain()
			var inside *tables
			open := domain.Open
			domain.Open = func(s *kernel.State) kernel.Part {
				inside = open(s).(*tables)
				return inside
			}
			m := kernel.New(kernel.Config[kernel.View, int]{
				Registry: kernel.Register(domain), View: func(v *kernel.View) *kernel.View { return v },
			})
			require.Empty(t, kernel.Check(m.View()))
			inside.launchers.Put("X", &c.row)
			m.StoreConfiguration(1, nil)
			require.Contains(t, kernel.Check(m.View())[0], c.says)
		})
	}
}
