package ir

import (
	"iter"
	"strconv"
)

func at(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// Bodies iterates over the bodies within a block, each with the path of its list.
func (b *Block) Bodies() iter.Seq2[string, []Block] {
	return func(yield func(string, []Block) bool) {
		list := func(path string, body []Block) bool { return len(body) == 0 || yield(path, body) }
		for i := range b.Cases {
			if !list(at("cases", i)+".body", b.Cases[i].Body) {
				return
			}
		}
		for i := range b.Arms {
			if !list(at("arms", i)+".body", b.Arms[i].Body) {
				return
			}
		}
		for i := range b.Branches {
			if !list(at("branches", i)+".body", b.Branches[i].Body) {
				return
			}
		}
		for i := range b.OnResponse {
			if !list(at("on_response", i)+".body", b.OnResponse[i].Body) {
				return
			}
		}
		for i := range b.OnFailure {
			if !list(at("on_failure", i)+".body", b.OnFailure[i].Body) {
				return
			}
		}
		_ = list("else", b.Else) && list("body", b.Body) && list("catch", b.Catch) && list("finally", b.Finally) &&
			list("compensate", b.Compensate)
	}
}

// Walk calls visit for every block of a body and of the bodies below it, outer ones first.
func Walk(path string, body []Block, visit func(path string, b *Block)) {
	for i := range body {
		here := at(path, i)
		visit(here, &body[i])
		for below, inner := range body[i].Bodies() {
			Walk(here+"."+below, inner, visit)
		}
	}
}

// Walk calls visit for every block of the flow.
func (f *Flow) Walk(path string, visit func(path string, b *Block)) {
	Walk(path+".body", f.Body, visit)
	Walk(path+".on_cancel", f.OnCancel, visit)
}
