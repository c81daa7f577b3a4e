// Package quotatest finds disks with project quotas for tests.
package quotatest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// DirEnv names a directory on a disk that holds project quotas. The tests of the virtual machine set it.
const DirEnv = "MIND_QUOTA_DIR"

// Dir returns an empty directory on a disk that holds project quotas: one that is given, or a small ext4 that the test mounts. It skips the
// test where neither can be had.
func Dir(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(DirEnv); given != "" {
		dir, err := os.MkdirTemp(given, "test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a disk with quotas")
	}
	at := t.TempDir()
	image, dir := filepath.Join(at, "image"), filepath.Join(at, "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 256<<20); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota,root_owner=0:0", image},
		{"mount", "-o", "loop,prjquota", image, dir},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no disk with project quotas here: %s: %v: %s", argv[0], err, out)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount the disk: %v", err)
		}
	})
	return dir
}
