package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Hashes are compared among versions that hash the same fields, and only where all that have data have told one.
func TestAgreement_comparesWhatCanBeCompared(t *testing.T) {
	for name, c := range map[string]struct {
		hashes []string
		states []uint64
		want   v1.HashAgreement_Value
	}{
		"equal":                        {[]string{"9-a", "9-a", "9-a"}, []uint64{5, 6, 7}, v1.HashAgreement_AGREE},
		"one alone":                    {[]string{"9-a"}, []uint64{5}, v1.HashAgreement_AGREE},
		"one without data":             {[]string{"9-a", "", "9-a"}, []uint64{5, 0, 7}, v1.HashAgreement_AGREE},
		"different":                    {[]string{"9-a", "9-b", "9-a"}, []uint64{5, 5, 5}, v1.HashAgreement_DIFFER},
		"different, one has told none": {[]string{"9-a", "9-b", ""}, []uint64{5, 5, 5}, v1.HashAgreement_DIFFER},
		"one has told none":            {[]string{"9-a", "", "9-a"}, []uint64{5, 6, 7}, v1.HashAgreement_UNKNOWN},
		"two versions":                 {[]string{"9-a", "8-b", "9-a"}, []uint64{5, 6, 7}, v1.HashAgreement_UNKNOWN},
		"none":                         {[]string{"", ""}, []uint64{0, 0}, v1.HashAgreement_UNKNOWN},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*v1.Coordinator
			for _, hash := range c.hashes {
				all = append(all, &v1.Coordinator{StateHash: hash})
			}
			require.Equal(t, c.want, agreement(all, c.states))
		})
	}
}
