// Package members decides which coordinators are voters: which ones join, are promoted, may be removed, and lead.
//
// Guarantees. No single change of the membership can stop the cluster: the voters of the new set that answer now are a
// majority of it, without the coordinator that is added or moved. A coordinator joins as a learner, and gets its vote
// when it has kept up for a while; a learner that never keeps up is removed. A coordinator that was removed does not
// come back by itself.
//
// Not guaranteed. That the leader knows at once which voters answer: its data may be old by silentAfter.
package members
