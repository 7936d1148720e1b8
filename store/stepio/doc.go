// Package stepio moves the contents of steps between the step protocol of runs and the
// blob store. [Fill] completes what a runtime is asked, [Pack] takes apart what it
// answered. The client and the worker use the same functions, so that a step is the same
// over all ways in.
package stepio
