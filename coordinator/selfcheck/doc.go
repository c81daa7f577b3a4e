// Package selfcheck compares this replica's state with that of the other voters at the same index, while they serve.
//
// Equal logs must give equal states. If they do not, because of a memory fault or a bug in one version, the answers and
// decisions of this replica are wrong.
//
// Guarantees. A replica whose state differs from that of a majority of the voters takes itself out of service. A majority
// cannot do so: at most a minority differs from it. Without a majority it is unknown which state is right: all replicas log
// an error, and continue.
//
// Not guaranteed. A voter that does not answer, or hashes something else (another version), is not compared.
package selfcheck
