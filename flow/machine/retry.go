package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/flow/ir"
)

// ErrOver says that an execution has ended: one that has failed goes on after Retry alone.
var ErrOver = errors.New("the execution has ended")

// ErrNotFailed says that an execution has not failed.
var ErrNotFailed = errors.New("the execution has not failed")

// Retry returns the frame of a failed execution, set back to a block that it has reached. If from is empty it goes on where it
// stood: the blocks that have failed start again. bindings replace names.
func (p *Program) Retry(stored []byte, from string, bindings map[string]any) ([]byte, error) {
	f, err := decodeFrame(stored)
	if err != nil {
		return nil, err
	}
	if f.Main == nil || f.Phase != running || f.Error == nil {
		return nil, ErrNotFailed
	}
	reached := []string{}
	if from != "" && !setBack(f.Main, p.Flow.Body, from, &reached) {
		slices.Sort(reached)
		return nil, fmt.Errorf("the execution has not reached a step %q that it can be retried from; it has: %s",
			from, strings.Join(slices.Compact(reached), ", "))
	}
	forget(f.Main)
	f.Error, f.Blocks = nil, 0
	for name, v := range bindings {
		f.Vars[name] = v
	}
	return encodeFrame(f)
}

// setBack sets the innermost body that runs and has reached the block back to it. Bodies that have failed come first.
func setBack(b *body, blocks []ir.Block, id string, reached *[]string) bool {
	for i := 0; i <= b.PC && i < len(blocks); i++ {
		*reached = append(*reached, blocks[i].ID)
	}
	if a := b.Cur; a != nil && b.PC < len(blocks) {
		order := make([]int, len(a.Kids))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return broken(a.Kids[j]) - broken(a.Kids[i]) })
		for _, i := range order {
			if setBack(a.Kids[i].Body, kidBlocks(&blocks[b.PC], a, a.Kids[i].Index), id, reached) {
				a.Failed = false
				return true
			}
		}
	}
	for i := 0; i <= b.PC && i < len(blocks); i++ {
		if blocks[i].ID == id {
			b.PC, b.Cur = i, nil
			return true
		}
	}
	return false
}

// broken says whether the block at which a body within another stands has failed: 1 or 0.
func broken(k kid) int {
	if k.Body != nil && k.Body.Cur != nil && k.Body.Cur.Failed {
		return 1
	}
	return 0
}

// kidBlocks are the blocks of a body within a block.
func kidBlocks(b *ir.Block, a *act, index int) []ir.Block {
	if a.Mode == handling {
		return b.OnFailure[a.Handler].Body
	}
	switch b.Kind {
	case ir.If:
		if index == otherwise {
			return b.Else
		}
		return b.Cases[index].Body
	case ir.Match:
		if index == otherwise {
			return b.Else
		}
		return b.Arms[index].Body
	case ir.Checkpoint:
		if index != otherwise {
			return b.OnResponse[index].Body
		}
	case ir.Parallel:
		return b.Branches[index].Body
	case ir.Foreach, ir.While:
		return b.Body
	case ir.Try:
		switch a.Stage {
		case trying:
			return b.Body
		case catching:
			return b.Catch
		}
		return b.Finally
	}
	return nil
}

// forget has a tree that has failed go on: the innermost blocks that have failed start again.
func forget(b *body) {
	if b == nil || b.Cur == nil {
		return
	}
	a := b.Cur
	if a.Failed && !slices.ContainsFunc(a.Kids, func(k kid) bool { return broken(k) == 1 }) {
		b.Cur = nil
		return
	}
	a.Failed, a.Attempt = false, 0
	// Handlers, a catch and a finally still need the error that they are about.
	if a.Mode == plain && a.Stage != catching && a.Stage != finishing {
		a.Err = nil
	}
	for i := range a.Kids {
		a.Kids[i].Over = false
		forget(a.Kids[i].Body)
	}
}
