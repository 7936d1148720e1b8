// Package workflows holds Wakepoint's workflows: thin interpreters that wait
// for something to happen, ask package domain what it means, and carry out what
// domain answers. They have no rule of their own.
//
// Everything here is replayed from history, so a change of what is scheduled,
// and in which order, needs a version (see versions.go), and the recorded
// histories in tests/replay must still replay.
package workflows
