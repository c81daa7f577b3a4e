// Package series keeps the history of numbers in bounded memory: values in a row share a bucket, and neighbouring buckets
// become one when there are too many.
//
// Contract: an agent adds the values of one task to a Set, and keeps it as a file (Encode, Decode), which the archive has,
// too. Select returns what is asked of it, in a number of points.
//
// Guarantees: the whole history is kept, the older the task the coarser. Minimum, maximum, last value and number of values
// of a bucket and of a point are exact, and the buckets of a series lie in the order of its values. A Set has at most
// MaxBuckets buckets, and its file at most MaxFile bytes. Decode accepts nothing that a Set could not have.
//
// Not guaranteed: that a value can be found alone in a long history; a mean is exact but for rounding.
package series
