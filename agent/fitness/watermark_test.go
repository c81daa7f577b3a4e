package fitness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func watermark(t *testing.T, text string) (w Watermark) {
	t.Helper()
	require.NoError(t, w.UnmarshalText([]byte(text)))
	return w
}

func TestWatermark(t *testing.T) {
	const gib = 1 << 30
	for text, want := range map[string][2]uint64{
		"":       {5 * gib, 50_000}, // 5 % of 100 GiB is less than 10 GiB
		"0":      {0, 0},
		"0%":     {0, 0},
		"20%":    {20 * gib, 200_000},
		"7GiB":   {7 * gib, 50_000},
		"512MiB": {gib / 2, 50_000},
		"8 KiB":  {8192, 50_000},
		"1TiB":   {1024 * gib, 50_000},
		"4096":   {4096, 50_000},
	} {
		bytes, files := watermark(t, text).of(100*gib, 1_000_000)
		require.Equal(t, want, [2]uint64{bytes, files}, text)
	}
	bytes, _ := Watermark{}.of(10_000*gib, 1)
	require.EqualValues(t, 10*gib, bytes, "of a large disk")
	for _, text := range []string{"", "5", "10%", "2147483648"} {
		again, err := watermark(t, text).MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, string(again))
	}
	for _, text := range []string{"-1", "5 percent", "91%", "-5%", "GiB", "1PiB", "1e9", "9999999999TiB"} {
		require.ErrorContains(t, new(Watermark).UnmarshalText([]byte(text)), "neither a percentage", text)
	}
}

// It comes back with a fifth more than what made it unfit, so that a task that writes does not change it with each file.
func TestLacks(t *testing.T) {
	const mib = 1 << 20
	bytes := func(free uint64) disk {
		return disk{bytes: 1000 * mib, freeBytes: free, files: 100_000, freeFiles: 90_000}
	}
	files := func(free uint64) disk {
		return disk{bytes: 1000 * mib, freeBytes: 900 * mib, files: 100_000, freeFiles: free}
	}
	nearly := "the disk of /d is nearly full: less than 100 MiB are free, which min_free_disk keeps for the tasks that run"
	few := "the disk of /d has few inodes left: fewer than 10000 are free, which min_free_disk keeps for the tasks that run"
	keep := watermark(t, "10%")
	for _, c := range []struct {
		d     disk
		unfit bool
		want  string
	}{
		{bytes(100 * mib), false, ""},
		{bytes(100*mib - 1), false, nearly},
		{bytes(119 * mib), true, nearly},
		{bytes(120 * mib), true, ""},
		{bytes(3 * mib), false, "the disk of /d is full: less than 4096 KiB are free"},
		{files(10_000), false, ""},
		{files(9_999), false, few},
		{files(11_999), true, few},
		{files(12_000), true, ""},
		{files(10), false, "the disk of /d has no inodes left: fewer than 64 are free"},
		{disk{bytes: 1000 * mib, freeBytes: 900 * mib}, false, ""}, // it does not count files
	} {
		require.Equal(t, c.want, lacks("/d", c.d, keep, c.unfit), "%+v", c)
	}
}

func TestMonitor_aNearlyFullDisk(t *testing.T) {
	dir := t.TempDir()
	onDisk(t, dir, "size=20m", func() {
		keep := Watermark{}
		if err := keep.UnmarshalText([]byte("10%")); err != nil {
			t.Error(err)
		}
		m := monitor(nil, dir)
		m.cfg.Keep = keep
		equal(t, "", m.Probe(nil))
		filler := filepath.Join(dir, "filler")
		fill := func(kib int64) {
			_ = os.Remove(filler)
			_ = os.WriteFile(filler, make([]byte, kib<<10), 0o600)
		}
		why := "the disk of " + dir + " is nearly full: less than 2 MiB are free, which min_free_disk keeps for the tasks that run"
		fill(19 << 10)
		equal(t, why, m.Probe(nil))
		fill(18<<10 - 100) // between the watermark and what is needed to come back
		equal(t, why, m.Probe(nil))
		fill(17 << 10)
		equal(t, "", m.Probe(nil))
		fill(18<<10 - 100)
		equal(t, "", m.Probe(nil))
	})
}
