// Package starter is the way in: the Go client of Wakepoint. It submits tasks,
// reads them, watches them, brings callbacks and hands over results, by messages
// to one workflow per task, and does the like for runs of agents: it starts them,
// takes their steps and commits them. It holds no state that it needs: any number of
// clients in any number of processes are the same client.
//
// Whatever fails, fails with an [*Error] whose code is one of a closed table, see
// [Codes]. The context of the caller bounds every call; where a call could wait
// for a worker that does not come, it also has a bound of its own.
package starter
