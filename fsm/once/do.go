package once

import (
	"encoding/binary"
	"strings"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// Gate opens Do.
var Gate = level.NewGate(level.Released+1, "writes that can be repeated with their key")

// Do applies the command in Body unless it was applied for the same key before.
type Do struct {
	Tenant string `cbor:"1,keyasint,omitempty"`
	User   string `cbor:"2,keyasint,omitempty"`
	Key    string `cbor:"3,keyasint,omitempty"`
	// Fingerprint tells requests with the same key apart.
	Fingerprint uint64 `cbor:"4,keyasint,omitempty"`
	// Minted: the gateway made the key, for its own repeats.
	Minted bool `cbor:"5,keyasint,omitempty"`
	// Body is an encoded command.
	Body []byte `cbor:"6,keyasint,omitempty"`
	// command is encoded into Body by AtLevel.
	command kernel.Command
}

// Of returns c with a command inside.
func (c Do) Of(command kernel.Command) Do {
	c.command = command
	return c
}

// CommandNumber implements kernel.Command.
func (Do) CommandNumber() uint16 { return 84 }

// AtLevel implements kernel.Leveled.
func (c Do) AtLevel(at level.Level) (kernel.Command, error) {
	if err := Gate.Check(at); err != nil {
		return nil, err
	}
	if c.command != nil {
		body, err := kernel.Encode(at, c.command)
		if err != nil {
			return nil, err
		}
		c.Body, c.command = body, nil
	}
	return c, nil
}

// Result is the result of Do. First, Again or Refusal is set.
type Result struct {
	// First is the result of the command, which was applied now.
	First any
	// Again is the encoded result of the command, which was applied before.
	Again   []byte
	Refusal *kernel.Refusal
	// Kept: the answer is remembered, so the next write of the call is another one.
	Kept bool
}

func do(tx *kernel.Tx, c *Do) Result {
	m := Of(tx.State)
	m.expire(tx.Now())
	a := m.named[name{c.Tenant, c.User, c.Key}]
	if a != nil {
		if a.Fingerprint != c.Fingerprint {
			return Result{Refusal: kernel.Refuse(kernel.CodeAlreadyExists, reason.KeyOfOtherRequest, firstPart(c.Key))}
		}
		if a.Command == inside(c.Body) {
			return Result{Again: a.Result, Kept: true}
		}
	}
	result, done := tx.Perform(c.Body)
	if !done || a != nil {
		// A command that was refused before has no answer: the one that is remembered is of a later write of the call.
		return Result{First: result}
	}
	encoded, err := kernel.EncodeResult(result)
	if err != nil || len(encoded) > MaxResult {
		return Result{First: result} // The caller has its answer; a repeat is applied again.
	}
	life := int64(Lifetime)
	if c.Minted {
		life = MintedLifetime
	}
	m.put(&Answer{
		Tenant: tx.Intern(c.Tenant), User: tx.Intern(c.User), Key: c.Key, Fingerprint: c.Fingerprint, Command: inside(c.Body), Result: encoded, ExpiresAt: tx.Now() + life,
	})
	m.bound()
	return Result{First: result, Kept: true}
}

// inside returns the number of an encoded command.
func inside(body []byte) uint16 {
	if len(body) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(body)
}

// firstPart returns the key of a call without the number of the write in it.
func firstPart(key string) string {
	first, _, _ := strings.Cut(key, Separator)
	return first
}
