package device

import (
	"context"
	"fmt"
)

// ErrBusy is returned while an earlier call hangs in the driver.
var ErrBusy = fmt.Errorf("%w: an earlier call hangs in it", ErrHung)

// Bound runs calls into a driver one at a time, and returns when the context ends, whether the driver answers or not.
// Use NewBound: the zero value is not ready.
type Bound struct{ turn chan struct{} }

// NewBound returns a Bound.
func NewBound() *Bound { return &Bound{turn: make(chan struct{}, 1)} }

// Run waits for its turn, runs the call, and waits for its end.
func (b *Bound) Run(ctx context.Context, call func() error) error {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w (%w)", ErrBusy, ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		// The turn ends when the driver is done, not when the caller stops waiting.
		defer func() { <-b.turn }()
		done <- call()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrHung, ctx.Err())
	}
}
