// Package domain holds the rules of a durable task: its state machine, the
// ledger of callbacks it has answered, resume by cursor, deliveries and their
// receipts, identifiers, and the limits of everything that comes in.
//
// The package is pure. It reads no clock, draws no random number, does no I/O
// and starts no goroutine, so the same inputs give the same outputs in a
// workflow, in its replay and in a test. Time, jitter and ids are arguments.
//
// The one entry is [Apply]: a task and an event give a [Transition]. Whoever
// interprets the task asks [Next] what has to be kept going on its behalf
// (a timer, a submission, a probe, a lease), which is derived from the task
// alone: after a crash or a continue-as-new the same question gives the same
// answer, so nothing about open work has to be remembered.
//
// Times are integer milliseconds since the Unix epoch (names end in AtMs),
// durations are integer milliseconds (names end in Ms).
package domain
