// Package dev runs an engine and a worker as child processes in one data
// folder, and keeps them running: the machinery below `wakepoint dev` and
// `wakepoint demo`.
//
// The order is engine, then worker; the end is the other way round, so that a
// worker can say its last words. A child that dies is started again, after a
// pause that grows. A child that is left behind, because this process was
// killed, ends by itself when its standard input ends. One process at a time
// has a data folder, held by a lock of the kernel's, which goes with the
// process however it dies.
package dev
