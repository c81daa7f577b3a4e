package vm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/u-root/u-root/pkg/cpio"
)

// writeModule writes a file that debug/elf can read as a kernel module with dependencies.
func writeModule(t *testing.T, path string, needs ...string) {
	t.Helper()
	info := []byte("license=GPL\x00depends=" + strings.Join(needs, ",") + "\x00name=x\x00")
	names := []byte("\x00.modinfo\x00.shstrtab\x00")
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			require.NoError(t, binary.Write(&b, binary.LittleEndian, v))
		}
	}
	const header, section = 64, 64
	at := uint64(header + len(info) + len(names))
	b.WriteString("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	put(uint16(1), uint16(62), uint32(1), uint64(0), uint64(0), at, uint32(0), uint16(header), uint16(0), uint16(0), uint16(section), uint16(3), uint16(2))
	b.Write(info)
	b.Write(names)
	b.Write(make([]byte, section))
	put(uint32(1), uint32(1), uint64(2), uint64(0), uint64(header), uint64(len(info)), uint32(0), uint32(0), uint64(1), uint64(0))
	put(uint32(10), uint32(3), uint64(0), uint64(0), uint64(header+len(info)), uint64(len(names)), uint32(0), uint32(0), uint64(1), uint64(0))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
}

// kernelTree writes the modules of a kernel: some in files, some built in.
func kernelTree(t *testing.T, dir string) {
	t.Helper()
	writeModule(t, filepath.Join(dir, "kernel/drivers/net/virtio_net.ko"), "virtio", "net_failover")
	writeModule(t, filepath.Join(dir, "kernel/drivers/virtio/virtio.ko"))
	writeModule(t, filepath.Join(dir, "kernel/drivers/virtio/virtio_pci.ko"), "virtio", "virtio-ring")
	writeModule(t, filepath.Join(dir, "kernel/drivers/virtio/virtio_ring.ko"))
	writeModule(t, filepath.Join(dir, "kernel/drivers/block/virtio_blk.ko"), "virtio")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "modules.builtin"),
		[]byte("kernel/fs/ext4/ext4.ko\nkernel/crypto/crc32c_generic.ko\nkernel/net/core/net-failover.ko\n"), 0o644))
}

func TestModules_areLoadedAfterWhatTheyNeed(t *testing.T) {
	dir := t.TempDir()
	kernelTree(t, dir)
	m, err := openModules(dir)
	require.NoError(t, err)
	files, err := m.order(baseModules...)
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, moduleName(f))
	}
	require.Equal(t, []string{"virtio", "virtio_ring", "virtio_pci", "virtio_blk", "virtio_net"}, names)
	_, err = m.order("overlay")
	require.ErrorContains(t, err, "the kernel has no module overlay")
}

func TestInitramfs_holdsWhatTheMachineStartsWith(t *testing.T) {
	dir := t.TempDir()
	kernelTree(t, filepath.Join(dir, "modules"))
	for _, name := range []string{"init", "busybox", "mind"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("the program "+name), 0o700))
	}
	k := &Kit{Modules: filepath.Join(dir, "modules"), Busybox: filepath.Join(dir, "busybox")}
	files := Files{Init: filepath.Join(dir, "init"), Programs: map[string]string{"mind": filepath.Join(dir, "mind")}}
	require.NoError(t, k.WriteInitramfs(filepath.Join(dir, "1"), files))
	require.NoError(t, k.WriteInitramfs(filepath.Join(dir, "2"), files))
	first, err := os.ReadFile(filepath.Join(dir, "1"))
	require.NoError(t, err)
	second, err := os.ReadFile(filepath.Join(dir, "2"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, second), "made of the same, it is the same")

	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(first)))
	require.NoError(t, err)
	modes := map[string]string{}
	for _, r := range records {
		modes[r.Name] = fmt.Sprintf("%o %d", r.Mode, r.UID)
	}
	require.Equal(t, "100755 0", modes["init"])
	require.Equal(t, "100755 0", modes["bin/mind"])
	require.Equal(t, "20600 0", modes["dev/console"])
	require.Contains(t, modes, "boot/modules/00-virtio.ko")
	require.Contains(t, modes, "boot/modules/04-virtio_net.ko")

	files.Programs["gone"] = filepath.Join(dir, "gone")
	require.ErrorContains(t, k.WriteInitramfs(filepath.Join(dir, "3"), files), "the program bin/gone of the machine")
}

// fetches is a fetcher that makes packages, and counts its calls.
type fetches struct {
	n   int
	err error
}

func (f *fetches) into(ctx context.Context, dir string) error {
	if f.n++; f.err != nil {
		return f.err
	}
	tree := filepath.Join(dir, "tree")
	for name, text := range map[string]string{
		"boot/vmlinuz-6.1-test": "kernel", "lib/modules/6.1-test/modules.builtin": "", "bin/busybox": "busybox", "usr/share/doc/readme": "much",
		"DEBIAN/control": "Package: test\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.com>\nDescription: test\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return exec.CommandContext(ctx, "dpkg-deb", "-b", tree, filepath.Join(dir, "test.deb")).Run()
}

func TestStore_fetchesOnceAndAgainWhatIsDamaged(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not here")
	}
	from := &fetches{}
	s := store{dir: filepath.Join(t.TempDir(), "vm"), fetch: from}
	first, err := s.open(t.Context())
	require.NoError(t, err)
	require.Equal(t, "6.1-test", first.version)
	require.FileExists(t, first.kernel)
	again, err := s.open(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, 1, from.n)

	require.NoError(t, os.WriteFile(first.kernel, []byte("kermel"), 0o644))
	_, err = s.open(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, from.n)
	text, err := os.ReadFile(first.kernel)
	require.NoError(t, err)
	require.Equal(t, "kernel", string(text))

	require.NoError(t, os.Remove(first.busybox))
	from.err = errors.New("no network")
	_, err = s.open(t.Context())
	require.ErrorContains(t, err, "no network")
	require.ErrorContains(t, err, "busybox-static*.deb of Debian into "+s.dir)
	left, err := filepath.Glob(filepath.Join(s.dir, "fetching-*"))
	require.NoError(t, err)
	require.Empty(t, left, "what was begun is taken away")
}

func TestLacksError_saysWhatToInstall(t *testing.T) {
	var err error = fmt.Errorf("starting: %w", &LacksError{Packages: []string{"qemu-system-x86", "e2fsprogs"}})
	require.True(t, IsLacking(err))
	require.ErrorContains(t, err, "apt-get install qemu-system-x86 e2fsprogs")
	err = &LacksError{Why: errors.New("no network")}
	require.ErrorContains(t, err, "needs a kernel and busybox: no network")
	require.False(t, IsLacking(errors.New("else")))
}
