package device

import (
	"context"
	"fmt"
)

// ErrBusy is returned while an earlier call hangs in the driver.
var ErrBusy = fmt.Errorf("%w: an earlier call hangs in it", ErrHung)

// Bound runs calls into a driver one at a time, and returns when the context
// ends whether the driver answers or not. The zero value is not ready: use
// NewBound.
type Bound struct{ turn chan struct{} }

// NewBound returns a Bound.
func NewBound() *Bound { return &Bound{turn: make(chan struct{}, 1)} }

// Run waits for its turn and for the call.
func (b *Bound) Run(ctx context.Context, call func() error) error {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w (%w)", ErrBusy, ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		// The turn is given back when the driver is done, not when the caller
		// has lost patience.
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
