// Package agent is the daemon of one GPU node.
package agent

import (
	"context"
	"fmt"

	// The shim is the same executable, started again: see its package comment.
	_ "github.com/mindcoordinator/mind/agent/shim"
)

// Run runs the agent until ctx ends or something fails that it cannot live
// without. It returns nil when ctx ended.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("agent configuration: %w", err)
	}
	<-ctx.Done()
	return nil
}
