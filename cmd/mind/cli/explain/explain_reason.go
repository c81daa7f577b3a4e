package explain

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// explainReason prints what a code means, or what the codes mean whose sentences contain the text.
func explainReason(w io.Writer, output, text string) error {
	if err := render.CheckOutput(output); err != nil {
		return exit.Misuse(err)
	}
	found := words.Find(text)
	if len(found) == 0 {
		return fmt.Errorf("no reason has the code or the number %q, or these words in its sentence: docs/use/reasons.md lists all", text)
	}
	if output != "table" {
		return render.Value(w, output, map[string]any{"reasons": found})
	}
	for i, m := range found {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, m)
	}
	return nil
}

func completeReasons(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, c := range reason.Codes() {
		names = append(names, c.String())
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
