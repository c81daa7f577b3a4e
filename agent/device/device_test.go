package device

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShortType(t *testing.T) {
	for model, want := range map[string]string{
		"NVIDIA H100 80GB HBM3":                        "H100",
		"NVIDIA H100 PCIe":                             "H100",
		"NVIDIA H200":                                  "H200",
		"NVIDIA A100-SXM4-40GB":                        "A100",
		"Mock NVIDIA A100-SXM4-40GB":                   "MOCK",
		"NVIDIA A10G":                                  "A10G",
		"NVIDIA L40S":                                  "L40S",
		"Tesla V100-PCIE-16GB":                         "V100",
		"Tesla T4":                                     "T4",
		"NVIDIA GeForce RTX 4090":                      "RTX4090",
		"NVIDIA GeForce RTX 4070 Ti SUPER":             "RTX4070TI",
		"NVIDIA RTX 6000 Ada Generation":               "RTX6000ADA",
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTXPRO",
		"NVIDIA GB200":                                 "GB200",
		"NVIDIA Graphics Device":                       "DEVICE",
		"Quadro RTX 8000":                              "RTX8000",
		"":                                             "",
	} {
		require.Equal(t, want, ShortType(model), model)
	}
}

func TestBoundReturnsWhenTheDriverDoesNot(t *testing.T) {
	b := NewBound()
	hang := make(chan struct{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.Run(ctx, func() error { <-hang; return nil }), context.DeadlineExceeded)
	require.ErrorIs(t, b.Run(ctx, func() error { return nil }), ErrBusy)
	close(hang)
	require.NoError(t, b.Run(context.Background(), func() error { return nil }))
}
