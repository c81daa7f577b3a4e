// Package selfcheck compares this replica's state with that of the other voters at the same index, while they serve.
//
// Equal logs must make equal states. Where they did not, by a fault in memory or in a version, what this replica answers and
// decides is wrong.
//
// Guarantees. A replica whose state is not that of a majority of the voters takes itself out of service. A majority cannot do
// so: at most a minority differs from it. Where no majority can be told, nobody knows which state is right: all replicas log
// an error, and go on.
//
// Not guaranteed. A voter that does not answer, or takes its hash of something else (another version), is not compared.
package selfcheck
