// Package session holds one stream with each agent while this coordinator leads: orders to the agent, heartbeats and
// reports from it.
//
// Guarantees. A session belongs to one term (Table) and ends with it. A node has one session; a newer one ends the
// older. A heartbeat is acknowledged only after package liveness confirmed it; a report only after it is committed. The
// first orders of a session are sent before its first acknowledgement, and orders that follow an acknowledged report
// come from a view that includes it. A lost message does no harm, because orders contain all tasks that a node should
// run.
//
// Not guaranteed: that an order arrives. The agent compares its orders with its tasks again in each session.
package session
