// Package leader keeps a node in touch with the coordinator that leads, and with the other nodes while none does.
//
// It owns the session with the leader (Sessions), the leases of the node as the shims are told them (Leases), the roster on
// disk (Rosters), the calls between nodes (Peers, PeerService, Relays), and the numbers of renewals and reports (FirstNumber).
// What it decides is in packages session, lease and outbox, which are pure; here are the streams, locks, timers and files.
//
// Guarantees: orders of one session are handed on in their order, and none after the session has ended. Reports are sent until
// they are acknowledged. A roster is named to the leader only when it is on disk. Renewals go on, and shims hear of their
// deadlines, whatever the owner of the tasks is doing. A peer's word that its session is closed counts from the question on,
// and only from the peer itself.
//
// Not guaranteed: that there is a session. Restart ends the one there is.
package leader
