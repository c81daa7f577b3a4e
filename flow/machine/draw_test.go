package machine_test

import (
	"encoding/json"
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/machine"
)

// drawing makes random programs without errors.
type drawing struct {
	*rapid.T
	ids int
	// calm programs change no names that others see, and handle no failures: their output depends on the answers alone, and not on
	// the order in which they come.
	calm bool
}

type object = map[string]any

func (d *drawing) chance(percent int) bool {
	return rapid.IntRange(0, 99).Draw(d.T, "chance") < percent
}

func (d *drawing) number(low, high int) int { return rapid.IntRange(low, high).Draw(d.T, "number") }

func (d *drawing) id(kind string) string {
	d.ids++
	return fmt.Sprintf("%s%d", kind, d.ids)
}

func (d *drawing) body(depth int) []object {
	blocks := make([]object, d.number(1, 3))
	for i := range blocks {
		blocks[i] = d.block(depth)
	}
	return blocks
}

func (d *drawing) block(depth int) object {
	var b object
	switch {
	case depth == 0 || d.chance(40):
		b = d.leaf()
	default:
		b = d.container(depth - 1)
	}
	if !d.calm {
		d.handling(b, depth)
	}
	return b
}

// handling gives a block timeouts, retries and handlers.
func (d *drawing) handling(b object, depth int) {
	if d.chance(10) {
		b["timeout"] = "1h"
	}
	if d.chance(15) {
		b["retry"] = object{"max": d.number(1, 2), "on": []string{"*"}}
	}
	if d.chance(15) {
		h := object{"action": rapid.SampledFrom([]string{"continue", "fail", "checkpoint"}).Draw(d.T, "action")}
		if depth > 0 && d.chance(50) {
			h["body"] = d.body(depth - 1)
		}
		b["on_failure"] = []object{h}
	}
	if d.chance(15) {
		b["compensate"] = []object{d.leaf()}
	}
}

func (d *drawing) leaf() object {
	switch kind := rapid.SampledFrom([]string{"rigid", "rigid", "wait", "event", "compute", "compute", "checkpoint", "core_call", "debug"}).Draw(d.T, "leaf"); kind {
	case "wait":
		return object{"kind": "wait", "id": d.id("w"), "duration": "5m"}
	case "event":
		return object{"kind": "wait", "id": d.id("e"), "event": "go"}
	case "compute":
		return object{"kind": "compute", "id": d.id("j"), "action": "job", "spec": object{"n": "{{n}}"}}
	case "core_call":
		return object{"kind": "core_call", "id": d.id("s"), "target": "other", "input_bindings": object{"n": "n"}}
	case "checkpoint":
		return object{"kind": "checkpoint", "id": d.id("q"), "prompt": "{{n}}?", "options": []string{"yes", "no"}}
	case "debug":
		return object{"kind": "debug", "id": d.id("d"), "values": "{{n}}"}
	}
	statements := []object{{"kind": "expression", "expression": "n + input.k"}}
	if !d.calm {
		statements = append(statements, object{"kind": "assign", "name": "n", "value": fmt.Sprintf("(n * 31 + %d) %% 1000", d.number(1, 30))})
		switch d.number(0, 12) {
		case 0:
			statements = append(statements, object{"kind": "return", "value": "n"})
		case 1:
			statements = append(statements, object{"kind": "fail", "code": "DRAWN"})
		case 2:
			statements = append(statements, object{"kind": "expression", "expression": "1 / (n % 2)"})
		}
	}
	return object{"kind": "rigid", "id": d.id("r"), "statements": statements}
}

func (d *drawing) container(depth int) object {
	kinds := []string{"if", "match", "foreach", "while", "parallel", "checkpoint"}
	if !d.calm {
		kinds = append(kinds, "try")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(d.T, "container"); kind {
	case "if":
		return object{"kind": "if", "id": d.id("i"), "cases": []object{{"when": "n % 2 == 0", "body": d.body(depth)}}, "else": d.body(depth)}
	case "match":
		return object{"kind": "match", "id": d.id("m"), "subject": "n % 3", "arms": []object{{"values": []int{0, 1}, "body": d.body(depth)}}, "else": d.body(depth)}
	case "foreach":
		b := object{
			"kind": "foreach", "id": d.id("f"), "items": fmt.Sprintf("range(%d)", d.number(0, 4)), "max_concurrent": d.number(1, 3),
			"fail_fast": d.chance(50), "body": d.body(depth),
		}
		if d.chance(50) {
			b["collect"] = "[index, item]"
		}
		return b
	case "while":
		// The counter begins in the same body, so that each iteration of a foreach around it has its own.
		counter := d.id("c")
		return object{"kind": "if", "id": d.id("i"), "cases": []object{{"when": "true", "body": []object{
			{"kind": "rigid", "id": d.id("r"), "statements": []object{{"kind": "assign", "name": counter, "value": "0"}}},
			{"kind": "while", "id": d.id("l"), "when": counter + " < 2", "max_iterations": 5, "body": append(d.body(depth), object{
				"kind": "rigid", "id": d.id("r"), "statements": []object{{"kind": "assign", "name": counter, "value": counter + " + 1"}},
			})},
		}}}}
	case "parallel":
		b := object{"kind": "parallel", "id": d.id("p"), "fail_fast": d.chance(50), "max_concurrent": d.number(0, 2)}
		var branches []object
		for i := range d.number(1, 3) {
			branches = append(branches, object{"name": fmt.Sprint("b", i), "body": d.body(depth)})
		}
		if b["branches"] = branches; !d.calm && d.chance(30) {
			b["join"] = "any"
		}
		return b
	case "checkpoint":
		return object{
			"kind": "checkpoint", "id": d.id("q"), "prompt": "?", "options": []string{"yes", "no"},
			"on_response": []object{{"values": []string{"yes"}, "body": d.body(depth)}},
		}
	}
	b := object{"kind": "try", "id": d.id("t"), "body": d.body(depth), "finally": d.body(depth)}
	if d.chance(70) {
		b["catch"] = d.body(depth)
	}
	return b
}

// program draws a program that has no errors.
func (d *drawing) program() *machine.Program {
	body := d.body(3)
	variables := []object{{"name": "n", "default": 0}}
	flow := object{"name": "main", "body": body}
	if !d.calm && d.chance(20) {
		flow["timeout"] = "1d"
	}
	if !d.calm && d.chance(50) {
		flow["on_cancel"] = d.body(1)
	}
	source, err := json.Marshal(object{"schema_version": "0.1", "name": "p", "variables": variables, "flows": []object{flow}})
	require.NoError(d, err)
	d.Logf("%s", source)
	m, found := check.Source(source)
	require.False(d, check.Failed(found), "%v", found)
	again, err := m.Encode()
	require.NoError(d, err)
	m, err = ir.Parse(again)
	require.NoError(d, err)
	p, err := machine.NewProgram(m, "")
	require.NoError(d, err)
	return p
}
