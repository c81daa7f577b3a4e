// Package exit says how a command ends: which error has which exit code, and how it is told on stderr.
//
// 0: done; 1: refused or failed; 2: misuse; 75: a job that was waited for was canceled or lost; 130: interrupted.
package exit
