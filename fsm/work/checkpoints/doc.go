// Package checkpoints has what the state knows of saved training states and exported models: their rows, where their files are,
// which of them retention gives up, and what agents have to do with them.
//
// A checkpoint is LOCAL, UPLOADING, DURABLE or EXPIRED, and moves as the table of transitions says. The archive has a key for
// each, which follows from its tenant, job and id alone. A copy in the archive of a checkpoint that is no longer in the
// state is a Leftover, until an agent has removed it: so every key under which there may be bytes belongs to a row.
package checkpoints
