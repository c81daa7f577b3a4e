// Package session holds one stream with each agent while this coordinator leads: orders down, heartbeats and reports up.
//
// Guarantees. A session belongs to one term (Table) and ends with it. A node has one session; a newer one ends the older. A
// heartbeat is acknowledged only after package liveness confirmed it; a report only after it is committed. The first
// orders of a session go before its first acknowledgement, and orders that follow an acknowledged report are of a view that
// holds it. A message that is lost costs nothing: orders say all that is wanted of a node.
//
// Not guaranteed: that an order arrives. The agent compares what it is told with what runs, in each session anew.
package session
