// Command demo shows on one machine, in about a minute, what Mind is for: a training job runs on a cluster of three
// coordinators, their leader is killed in the middle, and the training goes on undisturbed.
//
// The processes, the signals and the figures are real. The program checks each claim before it prints it at the end,
// and exits with 0 only if all claims hold.
package main

import (
	"context"
	"os"
	"time"

	"github.com/mindcoordinator/mind/devcluster/testrun"
	"github.com/mindcoordinator/mind/examples/stage"
)

func main() { os.Exit(testrun.Main(demo)) }

func demo() int {
	s := stage.Settings{Steps: 500, Delay: 50 * time.Millisecond}
	return stage.Play("demo", &s, func(ctx context.Context) error { return run(ctx, s) })
}

func run(ctx context.Context, s stage.Settings) error {
	return s.Run(ctx, "demo", func(ctx context.Context, at stage.Scene) (func(), error) {
		st := &story{Scene: at, settings: s}
		return st.summary, st.tell(ctx)
	})
}
