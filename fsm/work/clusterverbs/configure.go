package clusterverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// Configure sets what the state itself needs to know of the configuration.
type Configure struct {
	// KeepFinished bounds the finished jobs that are kept; 0: policy.DefaultKeepFinished.
	KeepFinished uint32 `cbor:"1,keyasint,omitempty"`
	// KeepAudit bounds the audit records of each kind; 0: DefaultKeepAudit. The oldest beyond it are gone at once.
	KeepAudit uint32 `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (Configure) CommandNumber() uint16 { return 12 }

func init() { verbs.Add(lifecycle.Verb("Configure", configure, nil)) }

// ConfigureResult is empty: a Configure is never refused.
type ConfigureResult struct{}

func configure(tx *lifecycle.Tx, c *Configure) ConfigureResult {
	tx.Meta.KeepFinished, tx.Meta.KeepAudit = c.KeepFinished, c.KeepAudit
	tx.Meta.Touch()
	access.KeepAudit(tx.Entry.State, int(c.KeepAudit))
	return ConfigureResult{}
}
