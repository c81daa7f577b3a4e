package selfcheck

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompareHashes(t *testing.T) {
	is := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for _, p := range pairs {
			id, hash, _ := strings.Cut(p, "=")
			m[id] = hash
		}
		return m
	}
	tests := map[string]struct {
		own    string
		voters int
		hashes map[string]string
		want   comparison
	}{
		"alone":                     {"a", 1, is("c1=a"), comparison{majority: true}},
		"all the same":              {"a", 3, is("c1=a", "c2=a", "c3=a"), comparison{majority: true}},
		"nobody answers":            {"a", 3, is("c1=a"), comparison{}},
		"another one differs":       {"a", 3, is("c1=a", "c2=b", "c3=a"), comparison{[]string{"c2"}, true, false}},
		"this one differs":          {"a", 3, is("c1=a", "c2=b", "c3=b"), comparison{[]string{"c2", "c3"}, true, true}},
		"one to one of three":       {"a", 3, is("c1=a", "c2=b"), comparison{[]string{"c2"}, false, false}},
		"one to one of two":         {"a", 2, is("c1=a", "c2=b"), comparison{[]string{"c2"}, false, false}},
		"three ways":                {"a", 3, is("c1=a", "c2=b", "c3=c"), comparison{[]string{"c2", "c3"}, false, false}},
		"two to two of five":        {"a", 5, is("c1=a", "c2=a", "c3=b", "c4=b"), comparison{[]string{"c3", "c4"}, false, false}},
		"three to two of five":      {"a", 5, is("c1=a", "c2=a", "c3=b", "c4=b", "c5=b"), comparison{[]string{"c3", "c4", "c5"}, true, true}},
		"two others of five differ": {"a", 5, is("c1=a", "c2=b", "c3=b"), comparison{[]string{"c2", "c3"}, false, false}},
		"not a voter, and wrong":    {"a", 3, is("c2=b", "c3=b", "c4=b"), comparison{[]string{"c2", "c3", "c4"}, true, true}},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, compareHashes("c1", c.own, c.voters, c.hashes))
		})
	}
}
