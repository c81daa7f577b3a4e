// Package programs has the programs of Cores as the interpreter needs them, and translates values between the state, the API and
// programs.
//
// Guarantees. A program is read from the version that an execution is pinned to, and from nothing else. The cache is bounded.
package programs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"github.com/mindcoordinator/mind/flow/check"
	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/machine"
	"github.com/mindcoordinator/mind/fsm/cores"
)

// maxCached bounds the sources of the parsed programs that are kept; bytes. A parsed program takes several times as much.
const maxCached = 8 << 20

// Cache keeps parsed programs. Its zero value is ready to use; many goroutines may use it at a time.
type Cache struct {
	mu     sync.Mutex
	parsed map[string]*ir.Module
	flows  map[flowKey]*machine.Program
	// size is that of the sources of parsed.
	size int
}

type flowKey struct{ digest, flow string }

// Module returns the program of a version.
func (c *Cache) Module(v *cores.Version) (*ir.Module, error) {
	c.mu.Lock()
	m := c.parsed[v.Digest]
	c.mu.Unlock()
	if m != nil {
		return m, nil
	}
	m, err := ir.Parse(v.Source)
	if err != nil {
		return nil, fmt.Errorf("reading version %d of the program: %w", v.Number, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil || c.size+len(v.Source) > maxCached {
		c.parsed, c.flows, c.size = map[string]*ir.Module{}, map[flowKey]*machine.Program{}, 0
	}
	if c.parsed[v.Digest] == nil {
		c.parsed[v.Digest] = m
		c.size += len(v.Source)
	}
	return m, nil
}

// Flow returns a flow of a version, ready to be advanced.
func (c *Cache) Flow(v *cores.Version, flow string) (*machine.Program, error) {
	key := flowKey{v.Digest, flow}
	c.mu.Lock()
	p := c.flows[key]
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	m, err := c.Module(v)
	if err != nil {
		return nil, err
	}
	if p, err = machine.NewProgram(m, flow); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flows != nil {
		c.flows[key] = p
	}
	return p, nil
}

// Digest names a program.
func Digest(source []byte) string {
	sum := sha256.Sum256(source)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Validate reads a program and says all that is wrong with it, in one sentence for each fault.
func Validate(source []byte) (*ir.Module, []string) {
	m, err := ir.Parse(source)
	if err != nil {
		return nil, []string{err.Error()}
	}
	var faults []string
	for _, d := range check.Module(m) {
		if d.Severity == check.SeverityError {
			faults = append(faults, strings.TrimPrefix(d.String(), string(check.SeverityError)+": "))
		}
	}
	return m, faults
}
