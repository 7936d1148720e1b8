// Package agent makes a runtime of runs out of a function that takes one step. The same
// function serves all three ways in: [Pull] asks for the steps of a run, [Handler] is
// sent them over HTTP, [Register] offers them as an activity of a Temporal worker.
//
// A step may come more than once: when a process was killed in the middle of it, it comes
// again with the same results and inputs and the next attempt. What a function does beside
// its answer should therefore be harmless when it is repeated; see docs/runtimes.md.
package agent
