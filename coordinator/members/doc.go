// Package members decides which coordinators are voters: who joins, who is promoted, who may be taken out, and who leads.
//
// Guarantees. No single change of the membership can stop the cluster: the voters of the new set that answer now are a majority of
// it, without the coordinator that is added or moved. A coordinator joins as a learner, and gets its vote when it has kept up for a
// while; one that does not get there is given up. One that was taken out does not come back by itself.
//
// Not guaranteed. Who answers is what the leader last heard: it may be wrong by silentAfter.
package members
