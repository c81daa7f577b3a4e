package windows

import (
	"fmt"
	"path"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

// Put arranges a window. Nodes are chosen by it.
type Put struct {
	Name  string `cbor:"1,keyasint,omitempty"`
	Kind  Kind   `cbor:"2,keyasint,omitempty"`
	From  int64  `cbor:"3,keyasint,omitempty"`
	Until int64  `cbor:"4,keyasint,omitempty"`
	// Patterns are of ids of nodes. A maintenance takes all nodes that match; a reservation only from these, as many as it
	// needs for its GPUs.
	Patterns []string      `cbor:"5,keyasint,omitempty"`
	Reason   string        `cbor:"6,keyasint,omitempty"`
	Tenant   string        `cbor:"7,keyasint,omitempty"`
	GPUs     uint32        `cbor:"8,keyasint,omitempty"`
	GPUType  string        `cbor:"9,keyasint,omitempty"`
	By       string        `cbor:"10,keyasint,omitempty"`
	Actor    *access.Actor `cbor:"11,keyasint,omitempty"`
}

// Delete ends a window, or calls it off.
type Delete struct {
	Name  string        `cbor:"1,keyasint,omitempty"`
	Kind  Kind          `cbor:"2,keyasint,omitempty"`
	Actor *access.Actor `cbor:"3,keyasint,omitempty"`
}

// Result is the window as it was put, or why nothing was done.
type Result struct {
	Window  *Window
	Refusal *kernel.Refusal
}

// CommandNumber implements kernel.Command.
func (Put) CommandNumber() uint16 { return 46 }

// CommandNumber implements kernel.Command.
func (Delete) CommandNumber() uint16 { return 47 }

// Validate says what is wrong with the command itself, whatever the state is.
func (c *Put) Validate(now int64) error {
	texts := append([]string{c.Name, c.Reason, c.Tenant, c.GPUType, c.By}, c.Patterns...)
	for _, text := range texts {
		if len(text) > MaxText {
			return fmt.Errorf("a text has %d bytes, and at most %d are kept", len(text), MaxText)
		}
	}
	for _, p := range c.Patterns {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("the pattern %q is not valid: use * and ? as in names of files", p)
		}
	}
	switch {
	case c.Name == "":
		return fmt.Errorf("it has no name")
	case c.Kind != Maintenance && c.Kind != Reservation:
		return fmt.Errorf("%d is no kind of window", c.Kind)
	case len(c.Patterns) > Max:
		return fmt.Errorf("it has %d patterns of nodes, and at most %d are taken", len(c.Patterns), Max)
	case c.Until <= c.From:
		return fmt.Errorf("it ends before it begins")
	case c.Until <= now:
		return fmt.Errorf("it ends in the past")
	case c.Until > now+MaxAhead:
		return fmt.Errorf("it ends more than a year ahead")
	case c.Kind == Maintenance && len(c.Patterns) == 0:
		return fmt.Errorf("it names no nodes")
	case c.Kind == Maintenance && (c.Tenant != "" || c.GPUs != 0):
		return fmt.Errorf("a maintenance is for no tenant and takes whole nodes")
	case c.Kind == Reservation && c.Tenant == "":
		return fmt.Errorf("it is for no tenant")
	case c.Kind == Reservation && c.GPUs == 0:
		return fmt.Errorf("it reserves no GPUs")
	}
	return nil
}
