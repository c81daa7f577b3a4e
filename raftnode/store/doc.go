// Package store keeps the log and the votes of one replica on disk.
//
// The votes (the current term, and the last vote with its term) are always in raft.db, a BoltDB file of
// hashicorp/raft-boltdb. The log is in wal/, in segments of hashicorp/raft-wal, or in raft.db as well. raft.db has a
// mark if the log is in wal/. Config names the place where the log should be; a log in the other place is moved at the
// start.
//
// Guarantees:
//   - A write is on disk when it returns. After the first failed write a Latch refuses all others.
//   - After a crash or a power cut at any moment of a move the directory can be opened, with all entries and votes. One
//     rename of raft.db completes the move. The next start removes the rest of the old place.
//   - Open finds damage before it writes anything: torn, foreign and missing pages of BoltDB; any changed bit in a
//     segment of the WAL, including the newest write; an impossible list of segments; and a log, newest segment or
//     votes that are missing. Open then fails and says what to do.
//   - A write that a crash cut short is dropped, and nothing else. In such a write at least one sector still has zeros:
//     see cutShort.
//   - A version of Mind that does not know the place refuses the directory, and says why.
//   - Only one process at a time uses a directory.
//
// Not guaranteed: that a changed bit within an entry of BoltDB is found, because its pages have no checksums. Nor,
// after a crash, that the loss of the newest write to the WAL is found if no bytes of it are left, or if a whole sector
// of it became zeros.
//
// # Faults of raft-wal
//
// This package works around these faults of version 0.4.2:
//   - A full segment is sealed first in its file, and later by a goroutine in wal-meta.db. If the process ends in
//     between, even after Close, the log can be opened but refuses all writes for ever ("segment is sealed"). See
//     mendTail.
//   - A write that seals a segment and that a crash cuts short has the same effect. See mendTail.
//   - It takes damage in the middle of the newest segment for a write that was cut short, and drops all writes after
//     it. See walkSegment. It does the same with a segment that was cut off. See checkSegments.
//   - Entries that were deleted from the newest segment can still be read. See segments.GetLog.
//   - It drops the newest write if it is damaged, and makes the newest segment again if it is missing. See cutShort and
//     keyReached. It makes a segment that the list names wrongly, and removes segments that the list does not name. See
//     checkList.
//   - Entries that a killed process had written but not synced count as written after the next start. See syncSegments.
//   - On a full disk it makes a segment without allocating it, and uses it after the next start. See mendTail.
//   - It refuses gaps. Therefore raft empties the log when it installs a snapshot (IsMonotonic). If raft is killed
//     before that, the log refuses all writes for ever. See segments.StoreLogs.
//
// If a rotation fails, the library only logs it. Then the next write fails, with the reason that beginWatch has kept,
// and so the replica stops; the next start completes the rotation. The library waits for ever for the lock of
// wal-meta.db, so this package locks the directory first.
package store
