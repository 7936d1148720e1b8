// Package demo is the main job of `wakepoint demo`: real tools that do real work
// on a Go source tree, as the calls of one durable run, and the report about what
// they found, which is the last of them.
//
// The tools are programs of their own, run by the executor exec: they speak by
// control lines on standard output, write their result as JSON to the file that
// WAKEPOINT_RESULT names, and know nothing of tasks. The report says what was
// found in the tree and nothing of how the tasks went, so that a run in which a
// worker was killed gives the same report: only durations differ, and they have
// one form, see [DurationPattern].
package demo
