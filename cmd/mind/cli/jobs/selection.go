package jobs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// maxSelected bounds the jobs of one command.
const maxSelected = 10_000

// selection chooses jobs by what they have in common, instead of by their ids.
type selection struct {
	labels, status []string
	queue, user    string
	yes            bool
	// from are the statuses of the jobs that the action is for.
	from []string
}

func (s *selection) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.labels, "label", nil, "instead of ids: the jobs with this label KEY=VALUE; repeatable")
	f.StringSliceVar(&s.status, "status", nil, "instead of ids: the jobs with this status, such as QUEUED,TRAINING")
	f.StringVar(&s.queue, "queue", "", "instead of ids: the jobs of this queue")
	f.StringVar(&s.user, "user", "", "instead of ids: the jobs of this user; me: yours")
	f.BoolVar(&s.yes, "yes", false, "do not ask before acting on jobs that were not named")
}

func (s *selection) some() bool {
	return len(s.labels)+len(s.status) > 0 || s.queue != "" || s.user != ""
}

// ids returns the jobs that were named, or those of the selection after the user has agreed.
func (s *selection) ids(ctx context.Context, cmd *cobra.Command, c *rest.Client, action string, named []string) ([]string, error) {
	switch {
	case s.some() && len(named) > 0:
		return nil, exit.Misuse(errors.New("give either ids of jobs, or flags that choose them"))
	case !s.some() && len(named) == 0:
		return nil, exit.Misuse(fmt.Errorf("give the ids of jobs, or choose them: mind %s --label team=vision", action))
	case !s.some():
		return named, nil
	}
	query := url.Values{}
	for _, v := range s.labels {
		query.Add("label", v)
	}
	status := s.status
	if len(status) == 0 {
		status = s.from
	}
	for _, v := range status {
		query.Add("status", strings.ToUpper(v))
	}
	if s.queue != "" {
		query.Set("queue", s.queue)
	}
	if s.user != "" {
		query.Set("user", s.user)
	}
	query.Set("fields", "job_id,name,status,user_id")
	found, _, total, err := List(ctx, c, query, maxSelected)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no job to %s is so: `mind jobs` with the same flags lists them", action)
	}
	total.More(cmd, len(found))
	if !s.yes {
		if err := agree(cmd, action, found); err != nil {
			return nil, err
		}
	}
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	return ids, nil
}

// agree shows what an action is about to reach, and asks. It refuses where nobody can be asked.
func agree(cmd *cobra.Command, action string, found []Job) error {
	in, w := cmd.InOrStdin(), cmd.ErrOrStderr()
	if _, file := in.(*os.File); file && !render.IsTerminal(in) {
		return exit.Misuse(fmt.Errorf("this would %s %d jobs, and stdin is no terminal, so you cannot be asked: give --yes", action, len(found)))
	}
	for i := range found[:min(len(found), 10)] {
		fmt.Fprintf(w, "  %s  %s  %s\n", found[i].ID, found[i].Status, render.Printable(found[i].Name))
	}
	if more := len(found) - 10; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	fmt.Fprintf(w, "%s %d jobs? [y/N] ", action, len(found))
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}
