// Command demo-core shows on one machine, in less than a minute, what Cores are for: a flow trains a model, scores it, asks a person
// and publishes it, and the leader of the cluster is killed twice: while the training runs, and right after the person's answer.
//
// The processes, the signals and the figures are real. The program checks each claim before it prints it at the end, and exits with 0
// only if all claims hold.
package main

import (
	"context"
	_ "embed"
	"flag"
	"os"
	"time"

	"github.com/mindcoordinator/mind/devcluster/testrun"
	"github.com/mindcoordinator/mind/examples/stage"
)

//go:embed publish.yaml
var program []byte

// settings are the flags.
type settings struct {
	stage.Settings
	wanted float64
}

func main() { os.Exit(testrun.Main(demo)) }

func demo() int {
	s := settings{Settings: stage.Settings{Steps: 400, Delay: 30 * time.Millisecond}}
	flag.Float64Var(&s.wanted, "wanted", 3, "loss on held-out text up to which a person is asked")
	return stage.Play("demo-core", &s.Settings, func(ctx context.Context) error { return run(ctx, s) })
}

func run(ctx context.Context, s settings) error {
	return s.Run(ctx, "demo-core", func(ctx context.Context, at stage.Scene) (func(), error) {
		st := &story{Scene: at, settings: s}
		return st.summary, st.tell(ctx)
	})
}
