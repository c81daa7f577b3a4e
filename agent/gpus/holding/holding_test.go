package holding

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHoldings(t *testing.T) {
	whole, other, half := Holding{GPUs: []int32{0, 1}}, Holding{GPUs: []int32{2}}, Holding{GPUs: []int32{1}, Shared: true}
	for _, c := range []struct {
		a, b Holding
		want bool
	}{
		{whole, whole, true},
		{whole, other, false},
		{whole, half, true},
		{half, half, false},
		{half, other, false},
		{Holding{}, whole, false},
		{Holding{Unknown: true}, whole, true},
		{Holding{Unknown: true}, half, true},
		{Holding{Unknown: true}, Holding{}, false},
	} {
		require.Equal(t, c.want, c.a.Excludes(c.b), "%v %v", c.a, c.b)
		require.Equal(t, c.want, c.b.Excludes(c.a), "%v %v", c.b, c.a)
	}
}
