// Package network is a network in memory and in virtual time: hosts, the connections and packets between them, and the weather
// on the way (delay, loss, repeats, stalls, cuts in one direction or both).
//
// A Host implements what coordinators and agents ask of a network, and carries gossip. Bytes of a connection
// arrive in order or the connection breaks; packets may be lost, late or doubled. All is drawn from the seed. It must be used
// inside a testing/synctest bubble. It does not look at what is sent.
package network
