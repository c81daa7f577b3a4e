package datatokens

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestSealer(t *testing.T) {
	with := func(key []byte, apiSecret string) Sealer {
		s, err := New(key, apiSecret, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		return s
	}
	mine := with(nil, "secret")
	want := &v1.DataCredentials{ScaidriveToken: "hunter2"}
	sealed, err := mine.seal("acme", want)
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "hunter2")
	again, err := mine.seal("acme", want)
	require.NoError(t, err)
	require.NotEqual(t, sealed, again, "what is the same looks the same when sealed")
	got, err := mine.open("acme", sealed)
	require.NoError(t, err)
	require.True(t, proto.Equal(want, got))

	other := with([]byte("0123456789abcdef"), "secret")
	none := with(nil, "")
	spoiled := slices.Clone(sealed)
	spoiled[len(spoiled)-1] ^= 1
	newer := slices.Clone(sealed)
	newer[0]++
	for name, open := range map[string]func() (*v1.DataCredentials, error){
		"another tenant": func() (*v1.DataCredentials, error) { return mine.open("evil", sealed) },
		"another key":    func() (*v1.DataCredentials, error) { return other.open("acme", sealed) },
		"no key":         func() (*v1.DataCredentials, error) { return none.open("acme", sealed) },
		"spoiled":        func() (*v1.DataCredentials, error) { return mine.open("acme", spoiled) },
		"cut off":        func() (*v1.DataCredentials, error) { return mine.open("acme", sealed[:5]) },
		"nothing":        func() (*v1.DataCredentials, error) { return mine.open("acme", nil) },
		"a later form":   func() (*v1.DataCredentials, error) { return mine.open("acme", newer) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open()
			require.ErrorIs(t, err, errSealed)
		})
	}
}
