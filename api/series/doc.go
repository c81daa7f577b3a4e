// Package series keeps the history of numbers in bounded memory: consecutive values share a bucket, and neighbouring
// buckets are merged when there are too many.
//
// Contract: an agent adds the values of one task to a Set, and keeps it in a file (Encode, Decode), which is also in
// the archive. Select returns histories with at most a given number of points.
//
// Guarantees: the whole history of a task is kept, with a resolution that decreases over time. Minimum, maximum, last
// value and number of values of a bucket and of a point are exact, and the buckets of a series lie in the order of its
// values. A Set has at most MaxBuckets buckets, and its file at most MaxFile bytes. Decode accepts nothing that a Set
// could not have.
//
// Not guaranteed: that a long history has each single value. A mean is exact except for rounding.
package series
