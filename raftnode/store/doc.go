// Package store keeps the log and the votes of one replica on disk.
//
// The votes (the current term, and for whom this replica voted in which term) are always in raft.db, a BoltDB file of
// hashicorp/raft-boltdb. The log is in wal/, the segments of hashicorp/raft-wal, or in raft.db as well. raft.db says which:
// it carries a mark when the log is in wal/. Config says which place it is to be; a log in the other
// one is moved at the start.
//
// Guarantees:
//   - A write is on disk when it returns. After the first write that failed a Latch lets no other write through.
//   - A crash or a power cut at any moment of a move leaves a directory that opens, with all entries and votes.
//     The switch is one rename of raft.db. What is left of the old place is removed at the next start.
//   - Damage that can be found is found before anything is written: torn, foreign and missing pages of BoltDB; any changed
//     bit of the segments of the WAL, also in the newest write; a list of segments that cannot be; a log, its newest segment or
//     votes that are gone. Open then fails and says what to do.
//   - A write that a crash cut short is dropped, and nothing else is. It is one of which a sector is zeros still: see cutShort.
//   - A version of Mind that knows only the old places refuses a directory that it would misread, and says why.
//   - One process at a time uses a directory.
//
// Not guaranteed: that a changed bit within an entry of BoltDB is found (its pages have no checksums). Or, after a crash, that
// the newest write to the WAL is missed when it is gone without a trace, or when a whole sector of it became zeros.
//
// # Faults of raft-wal
//
// Faults of version 0.4.2 that are dealt with here:
//   - A segment that is full is sealed in its file first, and in wal-meta.db later by a goroutine. When the process ends in
//     between, also in order, the log opens and refuses every write for ever ("segment is sealed"). See mendTail.
//   - A write that seals a segment and is cut short by a crash has the same effect. See mendTail.
//   - It takes damage in the middle of the newest segment for a write that was cut short, and drops all that follows. See
//     walkSegment. So it does with a segment that was cut off. See checkSegments.
//   - Entries that were deleted from the newest segment can still be read. See segments.GetLog.
//   - It drops damage in the newest write, and a newest segment that is gone. See cutShort and keyReached. It begins again what the
//     list of segments names wrongly, and removes what the list does not name. See checkList.
//   - What a process had written and not synced when it was killed counts as written after the next start. See syncSegments.
//   - On a full disk it leaves a segment that is not allocated, and writes to it after the next start. See mendTail.
//   - It refuses gaps. Raft empties such a log when it installs a snapshot (IsMonotonic). When it is killed before that, the
//     log refuses every write for ever. See segments.StoreLogs.
//
// A rotation that fails is only logged by the library. The next write then fails, for the reason that beginWatch kept; the Latch
// falls and the replica stops; the next start finishes the rotation. Opening waits for ever for the lock of wal-meta.db: so this
// package takes a lock on the directory first.
package store
