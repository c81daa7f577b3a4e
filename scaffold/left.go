package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mark is before each text that a person has to supply.
const mark = "FILL IN:"

// left lists the marks in the tree, with what they ask for. Generated code repeats those of the protos.
func left(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"scaffold", "bin", "python"}, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".proto", ".md"}, filepath.Ext(name)) || strings.HasSuffix(name, ".pb.go") {
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for at := 1; lines.Scan(); at++ {
			if _, what, marked := strings.Cut(lines.Text(), mark); marked {
				found = append(found, fmt.Sprintf("%s:%d:%s", name, at, what))
			}
		}
		return lines.Err()
	})
	return found, err
}
