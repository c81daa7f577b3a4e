// Command conform tests a gateway against its contract: every endpoint with every role and with bad input, and then
// random requests that are derived from the OpenAPI document and made invalid. It prints a table of the coverage, and
// exits with 1 if the gateway broke its contract.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/conformance"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

type options struct {
	mind, url, token string
	fuzz             int
	seed             uint64
}

func main() { os.Exit(testrun.Main(conform)) }

func conform() int {
	var o options
	flag.StringVar(&o.mind, "mind", "bin/mind", "the `binary` of which to start a cluster")
	flag.StringVar(&o.url, "url", "", "a gateway that runs already, instead; such as http://127.0.0.1:8080")
	flag.StringVar(&o.token, "token", os.Getenv("MIND_TOKEN"), "its token, with all permissions and mind:operator")
	flag.IntVar(&o.fuzz, "fuzz", 3000, "how many random requests; each may submit a job")
	flag.Uint64Var(&o.seed, "seed", rand.Uint64(), "of the random requests")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conform:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, o options) (err error) {
	target := conformance.Target{URL: o.url, Token: o.token}
	if o.url == "" {
		dir, err := os.MkdirTemp("", "mind-conform-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if o.mind, err = filepath.Abs(o.mind); err != nil {
			return err
		}
		start, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		cluster, err := procs.Start(start, o.mind, dir, "--http", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cluster.Stop()) }()
		info, err := cluster.Info()
		if err != nil {
			return err
		}
		target.URL, target.Token = info.Gateway.URL, info.Token
	}
	report, err := conformance.Run(ctx, target)
	if err != nil {
		return err
	}
	if err := report.Print(os.Stdout); err != nil {
		return err
	}
	fuzzed, err := conformance.Fuzz(ctx, target, conformance.FuzzOptions{Seed: o.seed, Requests: o.fuzz})
	if err != nil {
		return err
	}
	if err := fuzzed.Print(os.Stdout); err != nil {
		return err
	}
	if broken := report.Broken() + len(fuzzed.Broken); broken > 0 {
		return fmt.Errorf("%d promises were broken", broken)
	}
	return nil
}
