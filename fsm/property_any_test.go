package fsm_test

import (
	"reflect"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/once"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
)

// drawn are the commands that any draws. A Recover is proposed only beyond the end of a log, and a RaiseLevel only to a level that
// the proposer has: generator.command draws those.
var drawn = func() (defs []kernel.CommandDef) {
	for _, d := range fsm.Domains() {
		for _, c := range d.Commands {
			if c.Number != (clusterverbs.Recover{}).CommandNumber() && c.Number != (coordinators.RaiseLevel{}).CommandNumber() {
				defs = append(defs, c)
			}
		}
	}
	return defs
}()

// any draws a command of any kind by its fields, so that random logs have each new command from its first day. Most of them are
// refused: a command that is to mean something in the state has a case of its own in generator.command.
func (g *generator) any() kernel.Command {
	c := reflect.ValueOf(pick(g, "command", drawn...).Blank()).Elem()
	g.fill(c)
	if d, ok := c.Interface().(once.Do); ok {
		return d.Of(g.command()) // A replica stops at one that it cannot read.
	}
	return c.Interface().(kernel.Command)
}

func (g *generator) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case ident.Job:
		v.Set(reflect.ValueOf(g.job()))
		return
	case ident.Checkpoint:
		v.Set(reflect.ValueOf(g.checkpoint()))
		return
	case reason.Reason:
		v.Set(reflect.ValueOf(reason.Text(pick(g, "reason", "", "because"))))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(g.yes("bool"))
	case reflect.String:
		v.SetString(pick(g, "text", "", "acme", "ann", "default", "low", "n1", "c1", "H100", "s1", "FSDP", "k1"))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(pick(g, "int", 0, 0, 1, -1, 3, g.w.now)) // A number that does not fit is cut.
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		v.SetUint(pick(g, "uint", 0, 0, 1, 2, 3, 70, g.w.index, 1<<63))
	case reflect.Float64:
		v.SetFloat(pick(g, "float", 0, 0.5, -1))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				g.fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		if g.yes("there") {
			v.Set(reflect.New(v.Type().Elem()))
			g.fill(v.Elem())
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), g.n("length", 0, 2), 2))
		for i := range v.Len() {
			g.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		if g.yes("entry") {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			g.fill(key)
			g.fill(value)
			v.SetMapIndex(key, value)
		}
	case reflect.Array:
		for i := range v.Len() {
			g.fill(v.Index(i))
		}
	default:
		g.Fatalf("a field of kind %s is not drawn", v.Kind())
	}
}
