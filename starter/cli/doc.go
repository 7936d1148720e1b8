// Package cli holds the commands of the program wakepoint.
//
// A command reads its arguments, calls the Go client (package starter), and
// writes what it got: results on standard output, everything else on standard
// error. Nothing here decides anything about tasks. [Run] takes everything that
// a process has as arguments, so that the tests need no process.
package cli
