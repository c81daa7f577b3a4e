package machine

// giveUp cancels the waits below a body. A block that waited starts again if the body goes on; blocks that are done stay done.
func (r *run) giveUp(b *body) {
	if b == nil || b.Cur == nil {
		return
	}
	r.giveUpAct(b.Cur)
	if a := b.Cur; !a.Failed && len(a.Kids) == 0 && a.Mode == plain && a.Stage == 0 && a.Next == 0 {
		b.Cur = nil
	}
}

// giveUpAct cancels the waits of a block and below it.
func (r *run) giveUpAct(a *act) {
	waited := a.Wait != 0
	r.cancelWait(&a.Wait)
	r.cancelWait(&a.Timer)
	for i := range a.Kids {
		r.giveUp(a.Kids[i].Body)
	}
	if waited && a.Mode != plain {
		*a = act{}
	}
}
