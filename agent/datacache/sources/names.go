package sources

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// checkNames refuses file names that would escape the directory.
func checkNames(files []File) error {
	seen := make(map[string]bool, len(files))
	for _, file := range files {
		name := file.Name
		if !fs.ValidPath(name) || name == "." || !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsAny(name, "\x00\\") || seen[name] {
			return Faultf("it names a file %q, which is not a safe name", name)
		}
		seen[name] = true
	}
	// A name cannot be that of a file and of a directory.
	for _, file := range files {
		for d := file.Name; strings.Contains(d, "/"); {
			d = d[:strings.LastIndexByte(d, '/')]
			if seen[d] {
				return Faultf("it names %q as a file and as a directory", d)
			}
		}
	}
	return nil
}
