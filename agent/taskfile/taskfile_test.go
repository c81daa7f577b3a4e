package taskfile

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// kernels runs a test with openat2 and without it, as on an older kernel.
func kernels(t *testing.T, test func(t *testing.T)) {
	t.Run("openat2", func(t *testing.T) {
		test(t)
		if noOpenat2.Load() {
			t.Skip("this kernel has no openat2")
		}
	})
	t.Run("without openat2", func(t *testing.T) {
		before := noOpenat2.Swap(true)
		defer noOpenat2.Store(before)
		test(t)
	})
}

// place returns a directory of a task, and a file that the task may not read.
func place(t *testing.T) (dir, secret string) {
	t.Helper()
	base := t.TempDir()
	dir, secret = filepath.Join(base, "task"), filepath.Join(base, "secret")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "f"), []byte("text"), 0o600))
	return dir, secret
}

func TestOnlyRegularFilesBelowTheDirectoryAreOpened(t *testing.T) {
	kernels(t, func(t *testing.T) {
		dir, secret := place(t)
		at := func(name string) string { return filepath.Join(dir, name) }
		text, err := Read(dir, "sub/f", 100)
		require.NoError(t, err)
		require.Equal(t, "text", string(text))
		size, _, err := Size(dir, "sub/f")
		require.NoError(t, err)
		require.EqualValues(t, 4, size)
		_, err = Read(dir, "sub/f", 3)
		require.ErrorIs(t, err, ErrTooLong)
		_, err = Open(dir, "none")
		require.ErrorIs(t, err, os.ErrNotExist)
		_, err = Open(filepath.Join(dir, "none"), "f")
		require.ErrorIs(t, err, os.ErrNotExist)

		require.NoError(t, os.Symlink(secret, at("link")))
		require.NoError(t, os.Symlink("sub/f", at("link-within")))
		require.NoError(t, os.Symlink("sub", at("dir-link")))
		require.NoError(t, os.Symlink(filepath.Dir(secret), at("dir-out")))
		require.NoError(t, os.Link(secret, at("hard")))
		require.NoError(t, syscall.Mkfifo(at("fifo"), 0o600))
		socket, err := net.Listen("unix", at("socket"))
		require.NoError(t, err)
		defer socket.Close()
		names := map[string]error{
			"link": ErrNotRegular, "link-within": ErrNotRegular, "fifo": ErrNotRegular, "socket": ErrNotRegular, "sub": ErrNotRegular, "hard": ErrNames,
			"dir-link/f": nil, "dir-out/secret": nil, "../secret": errName, "sub/../../secret": errName, secret: errName, "": errName, ".": errName,
			"sub//f": errName, "sub/": errName, "f\x00": errName, "sub/f/x": syscall.ENOTDIR,
		}
		if err := syscall.Mknod(at("device"), syscall.S_IFCHR|0o600, 1<<8|5); err == nil { // like /dev/zero
			names["device"] = ErrNotRegular
		}
		for name, want := range names {
			file, err := Open(dir, name)
			require.Error(t, err, name)
			require.Nil(t, file, name)
			if want != nil {
				require.ErrorIs(t, err, want, name)
			}
			_, _, err = Size(dir, name)
			require.Error(t, err, name)
		}

		// The directory itself must not be a link either.
		require.NoError(t, os.Symlink(filepath.Dir(secret), dir+"-2"))
		_, err = Open(dir+"-2", "secret")
		require.Error(t, err)
		_, err = Names(dir+"-2", 10)
		require.Error(t, err)
	})
}

// A file, and a directory on its path, are repeatedly swapped with other things while the file is read.
func TestWhatIsSwappedWhileItIsOpenedIsNotRead(t *testing.T) {
	kernels(t, func(t *testing.T) {
		dir, secret := place(t)
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(secret), "f"), []byte("secret"), 0o600))
		swap := func(name, to string) error {
			aside := filepath.Join(dir, "aside")
			if err := os.Symlink(to, aside); err != nil {
				return err
			}
			// The swap uses RENAME_EXCHANGE: one of the two exists at any moment.
			for range 2000 {
				if err := unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, filepath.Join(dir, name), unix.RENAME_EXCHANGE); err != nil {
					return err
				}
			}
			return os.Remove(aside)
		}
		for _, c := range [][2]string{{"sub/f", secret}, {"sub", filepath.Dir(secret)}} {
			done := make(chan error, 1)
			go func() { done <- swap(c[0], c[1]) }()
			for read := 0; ; read++ {
				text, err := Read(dir, "sub/f", 100)
				if err == nil {
					require.Equal(t, "text", string(text), "after %d reads", read)
				}
				select {
				case err := <-done:
					require.NoError(t, err)
				default:
					continue
				}
				break
			}
		}
	})
}

func TestADirectoryOfAMillionNamesIsNotReadToItsEnd(t *testing.T) {
	dir, _ := place(t)
	for i := range 300 {
		require.NoError(t, os.Mkdir(filepath.Join(dir, "d"+string(rune('a'+i%26))+string(rune('a'+i/26))), 0o700))
	}
	_, err := Names(dir, 100)
	require.ErrorIs(t, err, ErrTooMany)
	names, err := Names(dir, 301)
	require.NoError(t, err)
	require.Len(t, names, 301)
	_, err = Names(dir+"/sub/f", 1)
	require.True(t, errors.Is(err, syscall.ENOTDIR), "%v", err)
}

func TestFilesAreWrittenWhole(t *testing.T) {
	kernels(t, func(t *testing.T) {
		dir, secret := place(t)
		require.ErrorIs(t, Append(dir, "f", []byte("x")), os.ErrNotExist, "what is not there is not made")
		require.NoError(t, Replace(dir, "f", []byte("one\n")))
		require.NoError(t, Append(dir, "f", []byte("two\n")))
		text, err := Read(dir, "f", 100)
		require.NoError(t, err)
		require.Equal(t, "one\ntwo\n", string(text))
		info, err := os.Stat(filepath.Join(dir, "f"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())

		var writers sync.WaitGroup
		for i := range 20 {
			writers.Go(func() {
				if err := Replace(dir, "many", bytes.Repeat([]byte{byte('a' + i)}, 5000)); err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		text, err = Read(dir, "many", 10_000)
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat(text[:1], 5000), text)
		names, err := Names(dir, 100)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"f", "many", "sub"}, names, "nothing else is left")

		// A link that the task has put there is not followed by writes, and a FIFO does not block them.
		require.NoError(t, os.Symlink(secret, filepath.Join(dir, "link")))
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		require.NoError(t, os.Link(secret, filepath.Join(dir, "hard")))
		for _, name := range []string{"link", "fifo", "hard"} {
			require.Error(t, Append(dir, name, []byte("x")), name)
			require.NoError(t, Replace(dir, name, []byte("own")), name)
			text, err := Read(dir, name, 100)
			require.NoError(t, err)
			require.Equal(t, "own", string(text))
		}
		require.Error(t, Replace(dir, "sub", nil))
		kept, err := os.ReadFile(secret)
		require.NoError(t, err)
		require.Equal(t, "secret", string(kept))
		require.Error(t, Replace(filepath.Join(dir, "none"), "f", nil))
	})
}
