package checkpoints

import "strings"

// Copy is a file in a list without links.
type Copy struct {
	// Path is its path in the list. It differs from the path of File if it takes the place of a link.
	Path string
	File File
}

// Flat returns files with copies in place of links. A link to a directory gets the files below it, but not the links to
// directories there. The files must be sorted, and have passed Check.
func Flat(files []File) (flat []Copy) {
	for i := range files {
		f := files[i]
		if f.Link == "" {
			flat = append(flat, Copy{f.Path, f})
			continue
		}
		if to, found := find(files, f.Link); found {
			flat = append(flat, Copy{f.Path, files[to]})
			continue
		}
		below := f.Link + "/"
		first, _ := find(files, below)
		for ; first < len(files) && strings.HasPrefix(files[first].Path, below); first++ {
			one := files[first]
			name := f.Path + "/" + strings.TrimPrefix(one.Path, below)
			if one.Link != "" {
				to, found := find(files, one.Link)
				if !found {
					continue
				}
				one = files[to]
			}
			flat = append(flat, Copy{name, one})
		}
	}
	return flat
}

// Check refuses a list of files that is not sorted by path, or in which a name or a link leads out of the checkpoint.
func Check(files []File) error { return checkFiles(files) }
