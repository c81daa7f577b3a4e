package machine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/mindcoordinator/mind/flow/ir"
)

// fan describes bodies that run beside each other, for foreach and parallel.
type fan struct {
	count, width int
	blocks       func(i int) []ir.Block
	names        func(k *kid) *scope
	// begin makes the body of one.
	begin func(i int) *body
	// end returns the value of one that is done.
	end func(k *kid, names *scope) (any, bool)
	// any ends the block with the first that is done.
	any      bool
	failFast bool
}

// foreach runs a body for each item of a list.
func (r *run) foreach(b *ir.Block, a *act, names *scope) outcome {
	if a.Stage == 0 {
		inner, ok := r.inputs(b, names)
		if !ok {
			return failed
		}
		v, ok := r.eval(b.Items, inner)
		if !ok {
			return failed
		}
		items, isList := v.([]any)
		if !isList {
			r.err = &Error{Code: CodeType, Message: fmt.Sprintf("its items %q are no list", b.Items.Text())}
			return failed
		}
		if len(items) > maxItems {
			r.err = &Error{Code: CodeTooLarge, Message: fmt.Sprintf("there are %d items, and at most %d are taken", len(items), maxItems)}
			return failed
		}
		a.Stage, a.Items, a.Out = 1, items, make([]any, len(items))
	}
	name := b.Var
	if name == "" {
		name = "item"
	}
	o := r.fan(a, fan{
		count: len(a.Items), width: max(b.MaxConcurrent, 1), failFast: b.FailFast == nil || *b.FailFast,
		blocks: func(int) []ir.Block { return b.Body },
		names: func(k *kid) *scope {
			if k.Body.Vars == nil {
				k.Body.Vars = map[string]any{}
			}
			return &scope{vars: k.Body.Vars, outer: names, label: names.label + "[" + strconv.Itoa(k.Index) + "]"}
		},
		begin: func(i int) *body {
			return &body{Own: true, Vars: map[string]any{name: a.Items[i], "index": int64(i)}}
		},
		end: func(_ *kid, inner *scope) (any, bool) {
			if b.Collect == nil {
				return r.value, true
			}
			return r.eval(b.Collect, inner)
		},
	})
	if o == done {
		r.value = a.Out
	}
	return o
}

// parallel runs branches beside each other. They share the names around them.
func (r *run) parallel(b *ir.Block, a *act, names *scope) outcome {
	if a.Stage == 0 {
		a.Stage, a.Out = 1, make([]any, len(b.Branches))
	}
	width := b.MaxConcurrent
	if width == 0 {
		width = len(b.Branches)
	}
	o := r.fan(a, fan{
		count: len(b.Branches), width: width, any: b.Join == "any", failFast: b.FailFast == nil || *b.FailFast,
		blocks: func(i int) []ir.Block { return b.Branches[i].Body },
		names:  func(*kid) *scope { return names },
		begin:  func(int) *body { return &body{} },
		end:    func(*kid, *scope) (any, bool) { return r.value, true },
	})
	if o == done {
		results := make(map[string]any, len(b.Branches))
		for i := range b.Branches {
			results[b.Branches[i].Name] = a.Out[i]
		}
		r.value = results
	}
	return o
}

// fan runs the bodies of a block as far as they come.
func (r *run) fan(a *act, f fan) outcome {
	width := min(f.width, MaxWidth)
	for {
		progress := false
		for i := 0; i < len(a.Kids); i++ {
			k := &a.Kids[i]
			if k.Over {
				continue
			}
			inner := f.names(k)
			o := r.body(k.Body, f.blocks(k.Index), inner)
			var value any
			if o == done {
				var ok bool
				if value, ok = f.end(k, inner); !ok {
					o = failed
				}
			}
			switch o {
			case yielded, returned:
				// The bodies behind this one have their turn after it, however fuel cuts the way.
				return o
			case failed:
				if f.failFast && !f.any {
					return failed
				}
				r.giveUp(k.Body)
				k.Over, progress = true, true
				if a.Err == nil {
					a.Err = r.err
				}
			case done:
				a.Out[k.Index] = value
				if f.any {
					a.Kids = slices.Delete(a.Kids, i, i+1)
					r.giveUpAct(a)
					return done
				}
				a.Kids = slices.Delete(a.Kids, i, i+1)
				i--
				progress = true
			}
		}
		for a.Next < f.count && active(a.Kids) < width {
			a.Kids = append(a.Kids, kid{Index: a.Next, Body: f.begin(a.Next)})
			a.Next++
			progress = true
		}
		if a.Next >= f.count && active(a.Kids) == 0 {
			if r.err = a.Err; r.err != nil {
				return failed
			}
			return done
		}
		if !progress {
			return waiting
		}
	}
}

// active counts the bodies that still run.
func active(kids []kid) int {
	n := 0
	for i := range kids {
		if !kids[i].Over {
			n++
		}
	}
	return n
}
