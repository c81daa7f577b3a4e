package jobverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// OpenTunnel writes down that a user opens a tunnel into a task of a job. It changes nothing else: the tunnel lives at the agent.
type OpenTunnel struct {
	Tenant string    `cbor:"1,keyasint,omitempty"`
	Job    ident.Job `cbor:"2,keyasint,omitempty"`
	// The command or the port that is reached, such as "rank 0: bash" or "rank 0: port 6006".
	What  string        `cbor:"3,keyasint,omitempty"`
	Actor *access.Actor `cbor:"4,keyasint,omitempty"`
}

// TunnelResult is why nothing was opened.
type TunnelResult struct{ Refusal *kernel.Refusal }

// CommandNumber implements kernel.Command.
func (OpenTunnel) CommandNumber() uint16 { return 75 }

// TunnelGate opens tunnels.
var TunnelGate = level.NewGate(level.Released+1, "shells in running jobs (mind exec)")

// AtLevel implements kernel.Leveled.
func (c OpenTunnel) AtLevel(at level.Level) (kernel.Command, error) { return c, TunnelGate.Check(at) }

func init() { verbs.Add(lifecycle.Verb("OpenTunnel", openTunnel, auditOpenTunnel)) }

func openTunnel(tx *lifecycle.Tx, c *OpenTunnel) TunnelResult {
	j, ok := tx.Find(c.Job)
	if !ok || j.Tenant != c.Tenant {
		return TunnelResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoJob, c.Job)}
	}
	return TunnelResult{}
}

func auditOpenTunnel(tx *kernel.Tx, c *OpenTunnel, result TunnelResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditTunnelOpen, Tenant: c.Tenant, Job: c.Job, Message: reason.Text(c.What)}, result.Refusal)
}

// AuditTunnelOpen is the action in the audit log.
var AuditTunnelOpen = access.DefineAction(91, "job.tunnel", access.AboutJobs)
