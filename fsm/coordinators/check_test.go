package coordinators

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

func TestCheck_canFail(t *testing.T) {
	for name, c := range map[string]struct {
		terms []Term
		says  string
	}{
		"a term of tomorrow":           {[]Term{{Number: 3, Index: 9}}, "term 3 was noted at index 9"},
		"a later one noted before":     {[]Term{{Number: 3, Index: 1, At: 9}, {Number: 4, Index: 1, At: 9}}, "term 4 was noted at index 1"},
		"a gap that is less than none": {[]Term{{Number: 3, Index: 1, Gap: -1}}, "term 3"},
		"too many":                     {make([]Term, keptTerms+1), "65 terms are remembered"},
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
			for i := range c.terms {
				row := c.terms[i]
				if row.Number == 0 {
					row.Number = uint64(i + 1)
				}
				inside.terms.Put(row.Number, &row)
			}
			m.StoreConfiguration(1, nil)
			require.Contains(t, kernel.Check(m.View())[0], c.says)
		})
	}
}
