package sim

import (
	"fmt"
	"slices"
)

// relay asks up to three peers to pass a renewal on.
func (a *agent) relay() {
	seq, roster, boot := a.nextSeq(), a.keeps(), fmt.Sprintf("boot-%d", a.boots)
	peers := a.keeper.Peers()
	for _, i := range a.w.rng.Perm(len(peers))[:min(3, len(peers))] {
		p := a.w.agent(peers[i])
		a.w.send(&a.proc, &p.proc, func() {
			s := p.session
			if s == nil {
				return
			}
			p.passing = append(p.passing, passing{relayed{a, seq}, func() {
				p.w.send(&p.proc, &a.proc, func() {
					if a.acked(seq) {
						a.w.seen.Relayed++
					}
				})
			}})
			if len(p.passing) > 64 {
				p.passing = slices.Delete(p.passing, 0, 32)
			}
			s.up.send(func() { s.relay(a, boot, seq, roster) })
		})
	}
}

func (a *agent) relayAcked(of relayed) {
	for i, p := range a.passing {
		if p.relayed == of {
			a.passing = slices.Delete(a.passing, i, i+1)
			p.done()
			return
		}
	}
}

// ping asks all peers whether they are cut off, too.
func (a *agent) ping() {
	sentAt := a.clock()
	for _, name := range a.keeper.Peers() {
		if a.w.without(RuleAcks) {
			a.keeper.PeerClosed(name, sentAt)
			continue
		}
		p := a.w.agent(name)
		a.w.send(&a.proc, &p.proc, func() {
			closed := p.keeper.AnswerPing(p.clock()) || p.w.without(RuleClosed)
			p.w.send(&p.proc, &a.proc, func() {
				if closed {
					a.keeper.PeerClosed(name, sentAt)
				}
			})
		})
	}
}
