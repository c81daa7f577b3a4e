package machine

// fits says that a frame may be within MaxFrame. Its parts share their values, so that one of a few kilobytes could take gigabytes when
// it is stored: fits counts each value as often as it would be stored, at less than it takes there, and stops at the limit.
func (f *Frame) fits() bool {
	left := MaxFrame
	for name, v := range f.Vars { // order-free: a sum
		left -= len(name)
		measure(v, &left)
	}
	for _, u := range f.Undo {
		measure(u.Result, &left)
		measure(u.Vars, &left)
	}
	for _, p := range f.Pending { // order-free: a sum
		measure(p.Value, &left)
	}
	f.Main.measure(&left)
	f.After.measure(&left)
	return left >= 0
}

func (b *body) measure(left *int) {
	if b == nil || *left < 0 {
		return
	}
	measure(b.Last, left)
	measure(b.Vars, left)
	if a := b.Cur; a != nil {
		measure(a.Items, left)
		measure(a.Out, left)
		measure(a.Value, left)
		for i := range a.Kids {
			a.Kids[i].Body.measure(left)
		}
	}
}

// measure takes the size of a value from a number, until that is negative.
func measure(v any, left *int) {
	*left--
	if *left < 0 {
		return
	}
	switch v := v.(type) {
	case string:
		*left -= len(v)
	case []any:
		for i := 0; i < len(v) && *left >= 0; i++ {
			measure(v[i], left)
		}
	case map[string]any:
		for name, element := range v { // order-free: a sum
			if *left -= len(name); *left < 0 {
				return
			}
			measure(element, left)
		}
	}
}
