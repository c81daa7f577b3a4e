// Package network simulates a network in memory and in virtual time: hosts, the connections and packets between them,
// and the weather of links (delay, loss, repeats, stalls, cuts in one or both directions).
//
// A Host implements the Network interfaces of coordinators and agents, and carries gossip. Bytes of a connection arrive
// in order or the connection breaks; packets may be lost, late or doubled. All of this is drawn from the seed. The
// network must be used inside a testing/synctest bubble. It does not examine the data.
package network
