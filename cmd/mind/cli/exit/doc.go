// Package exit defines which exit code each error has and how commands report errors on stderr.
//
// 0: done; 1: refused or failed; 2: misuse; 75: a job that was waited for was canceled or lost; 130: interrupted.
package exit
