package cluster

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// gpuMap is the answer of GET /cluster/map.
type gpuMap struct {
	Nodes  []string `json:"node_ids"`
	States []string `json:"states"`
	Types  []string `json:"gpu_types"`
	GPUs   []string `json:"gpus"`
}

// maxMapNodes bounds the nodes that the map shows.
const maxMapNodes = 200

// marks are the characters of the map for those of the answer.
var marks = strings.NewReplacer("m", "■", "o", "▣", ".", "·", "x", "✗")

// write draws the GPUs of each node, several nodes in a line where the width, in columns of the terminal, has room; 0: one
// node in a line.
func (m *gpuMap) write(w io.Writer, width int) {
	if len(m.Nodes) == 0 || len(m.GPUs) != len(m.Nodes) || len(m.States) != len(m.Nodes) {
		return
	}
	fmt.Fprintln(w, "GPUS   ■ yours   ▣ others'   · free   ✗ not healthy")
	shown := min(len(m.Nodes), maxMapNodes)
	cells, widest := make([]string, shown), 0
	for i := range cells {
		cells[i] = m.Nodes[i] + " " + marks.Replace(m.GPUs[i])
		if m.States[i] != "READY" {
			cells[i] += " " + strings.ToLower(m.States[i])
		}
		widest = max(widest, utf8.RuneCountInString(cells[i]))
	}
	columns := max(1, (width+3)/(widest+3))
	for i, cell := range cells {
		if i%columns == columns-1 || i == shown-1 {
			fmt.Fprintln(w, cell)
			continue
		}
		fmt.Fprint(w, cell+strings.Repeat(" ", widest-utf8.RuneCountInString(cell)+3))
	}
	if more := len(m.Nodes) - shown; more > 0 {
		fmt.Fprintf(w, "and %d more nodes\n", more)
	}
}
