// Package worker wires Wakepoint's workflows and activities to Temporal: which
// runs on which task queue, with which limits. Programs that bring executors of
// their own embed it; `wakepoint worker` is the same as a command.
package worker
