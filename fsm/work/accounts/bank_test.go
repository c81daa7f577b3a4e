package accounts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func day() Life { return Life(24 * time.Hour) }

func TestBank_settlesAnAccountOnceForACommand(t *testing.T) {
	b, ann := NewBank(), Key{"default", "acme", "ann"}
	Charge(&b, ann, Amount{GPUMilli: 1000}, 5e9, day)
	Charge(&b, ann, Amount{GPUMilli: 500}, 5e9, day)
	view := Freeze(&b)
	Settle(&b)
	for range view.Accounts() {
		require.Fail(t, "a frozen copy has what came after it")
	}
	frozen := Freeze(&b)
	frozen.CheckAccounts(map[Key]Amount{ann: {GPUMilli: 1500}}, 5e9, func(format string, args ...any) {
		require.Failf(t, "the accounts differ", format, args...)
	})
	require.Nil(t, b.Faded(1<<62, day()), "what holds something is not forgotten")
	Discharge(&b, ann, Amount{GPUMilli: 1500}, 6e9, day)
	Settle(&b)
	at, idle := b.NextFaded(day())
	require.True(t, idle)
	require.Nil(t, b.Faded(at-1, day()))
	Drop(&b, b.Faded(at, day()))
	require.Nil(t, b.Faded(1<<62, day()))
}

func TestCheck_canFail(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(b *Bank)
		says    string
	}{
		"an account that is idle and not listed": {func(b *Bank) { b.rows.Put(Key{Queue: "x"}, &Account{Queue: "x"}) }, "is not listed as idle"},
		"a listed account that is not there":     {func(b *Bank) { b.idle.Put(idle{1, Key{Queue: "x"}}) }, "are listed as idle instead of"},
		"an account of the future":               {func(b *Bank) { Put(b, nil, &Account{Queue: "x", At: 1 << 60}) }, "the account of {x  } is of"},
		"an account that holds too much":         {func(b *Bank) { Put(b, nil, &Account{Queue: "x", Holds: Amount{CPUs: 1}}) }, "and the jobs of its user"},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBank()
			Put(&b, nil, &Account{Queue: "default", User: "ann"})
			var found []string
			check := func() {
				b.CheckAccounts(map[Key]Amount{}, 5e9, func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) })
			}
			check()
			require.Empty(t, found)
			c.breakIt(&b)
			check()
			require.Contains(t, strings.Join(found, "\n"), c.says)
		})
	}
}
