// Package exec runs a tool as a process on this host.
//
// Nobody who may die with the worker is the parent of the tool: Submit starts a small detached
// supervisor, the same binary in a session of its own, which starts the tool, reads what it
// writes, enforces deadline and cancellation, and leaves everything in files. The worker only ever
// reads these files, so that a worker killed at any point loses nothing and its successor goes on.
//
// What holds, and where (the long form is docs/exec.md):
//
//   - Per host and data folder, no two runs of one submission key overlap. The supervisor holds an
//     flock for as long as anything of the tool's process group lives, and the kernel takes the
//     tool down with a killed supervisor (on Linux; elsewhere the remains are ended when the loss
//     is found).
//   - A run starts at most once. Its identity is on disk before its process exists, and whoever
//     finds a run without one closes it for good, under the same lock, before starting another.
//   - A run whose supervisor was killed, or whose host was restarted, is lost: surely over, with
//     nothing said of how. It is repeated only on request.
//
// The files of a key lie in <DataDir>/exec/<sha256 of the key>/: the locks, and a folder run-<n>
// for each time the key was started; see layout.go.
package exec
