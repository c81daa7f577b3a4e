package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each decision must have a line in the index, with its title.
func TestDecisions_areInTheirIndex(t *testing.T) {
	index := strings.Join(strings.Fields(read(t, "decisions/README.md")), " ")
	pages, err := filepath.Glob("decisions/[0-9]*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	title := regexp.MustCompile(`^# 0*[0-9]+[.:] (.+)\n`)
	for _, path := range pages {
		m := title.FindStringSubmatch(read(t, path))
		require.NotNil(t, m, "%s does not begin with \"# NN. \" and its title", path)
		name := filepath.Base(path)
		require.Contains(t, index, "["+name[:4]+"]("+name+"): "+m[1], "docs/decisions/README.md lacks the line of %s", path)
	}
}

// namedPath matches a path in backticks in a page.
var namedPath = regexp.MustCompile("`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+/?)`")

// notPaths matches paths that look like paths in the repository but are not: programs make or find these files
// elsewhere.
var notPaths = regexp.MustCompile(`^bin/|NAME|^pki/.*\.pem$|/\.\.\.$`)

// Each file or folder of the repository that a page names must exist. A path is one in the repository if its first
// element is.
func TestPages_nameFilesThatExist(t *testing.T) {
	seen, wrong := 0, []string{}
	for _, path := range files(t, ".md") {
		page := codes.ReplaceAllString(read(t, path), "")
		for _, m := range namedPath.FindAllStringSubmatch(page, -1) {
			first, _, _ := strings.Cut(m[1], "/")
			if _, err := os.Stat(filepath.Join("..", first)); err != nil || notPaths.MatchString(m[1]) {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				wrong = append(wrong, path+": "+m[1])
			}
		}
	}
	require.Empty(t, wrong, "files that do not exist")
	require.Greater(t, seen, 100)
}
