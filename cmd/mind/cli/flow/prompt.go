package flow

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/flow/rehearse"
)

// prompt asks for answers on a terminal.
type prompt struct {
	ctx   context.Context
	to    io.Writer
	lines <-chan string
}

// newPrompt begins to read lines. Its goroutine ends with the input, or with the program.
func newPrompt(ctx context.Context, from io.Reader, to io.Writer) *prompt {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(from); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return &prompt{ctx, to, lines}
}

// ask returns the typed line as JSON, or nil at the end of the input. The id of an option is the answer to a decision.
func (p *prompt) ask(m *rehearse.Missing) ([]byte, error) {
	if m.Problem != "" {
		fmt.Fprintln(p.to, render.Printable(m.Problem))
	} else {
		fmt.Fprintf(p.to, "%s waits for %s\n", m.Step, render.Printable(m.For))
	}
	fmt.Fprintf(p.to, "%s ", hint(m))
	select {
	case <-p.ctx.Done():
		return nil, exit.Interrupted("interrupted; nothing was kept")
	case text, ok := <-p.lines:
		text = strings.TrimSpace(text)
		switch {
		case !ok:
			return nil, nil
		case m.Decision && !strings.HasPrefix(text, "{"):
			return json.Marshal(map[string]string{"resolution": text})
		}
		return []byte(text), nil
	}
}

func hint(m *rehearse.Missing) string {
	if !m.Decision {
		return "its result, as JSON:"
	}
	if len(m.Options) == 0 {
		return "your answer:"
	}
	var ids []string
	for _, o := range m.Options {
		if o.Label != "" && o.Label != o.ID {
			ids = append(ids, fmt.Sprintf("%s (%s)", o.ID, o.Label))
			continue
		}
		ids = append(ids, o.ID)
	}
	return render.Printable(strings.Join(ids, ", ")) + ":"
}
