// Package budgets meters the GPU time of tenants by month: for each tenant a row with what its jobs have held since the month
// began, exactly, in thousandths of a GPU times milliseconds.
//
// Months are those of UTC, by the time of the log. A row is brought up to date when what its tenant holds changes, and at the
// end of the month, so it costs nothing in between. All of it is integers.
//
// Guarantees. No job that needs GPUs is granted them once its tenant has used up the hours that its quota allows in the month
// (I16). When those that run are stopped is in package overdraft.
package budgets
