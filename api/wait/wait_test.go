package wait

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		took := func() time.Duration { return time.Since(began) }
		for _, d := range []time.Duration{0, -time.Second} {
			For(context.Background(), d)
			require.Zero(t, took())
		}
		For(context.Background(), time.Minute)
		require.Equal(t, time.Minute, took())
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		For(ctx, time.Hour)
		require.Equal(t, time.Minute+time.Second, took())
	})
}
