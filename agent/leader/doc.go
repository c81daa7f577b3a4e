// Package leader keeps a node connected to the leader, and to the other nodes while there is no leader.
//
// It owns the session with the leader (Sessions), the node's leases and their deadlines in the shims (Leases), the roster
// on disk (Rosters), the calls between nodes (Peers, PeerService, Relays), and the numbers of renewals and reports
// (FirstNumber). Packages session, lease and outbox make its decisions and are pure; this package has the streams, locks,
// timers and files.
//
// Guarantees: orders of one session are passed on in order, and none after the session has ended. Reports are sent
// until they are acknowledged. A roster is acknowledged to the leader only when it is on disk. Renewals continue, and
// shims get their deadlines, even if the goroutine that owns the tasks is busy. A peer's answer that its session is
// closed counts from the time of the question, and only if the peer itself gives it.
//
// Not guaranteed: that there is a session. Restart ends the current one.
package leader
