// Package replay holds histories of real workflows and replays them with the
// code as it is now. A history that does not replay is a workflow that would
// stand still after an upgrade: either the change is wrapped in
// workflow.GetVersion, or no such workflow may be open any more.
//
// The tests of this package run with the workflow cache off, so that the worker
// that records replays every workflow task as well.
package replay
