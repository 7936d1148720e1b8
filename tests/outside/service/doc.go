// Package service is a service outside of Wakepoint, for tests: it starts jobs by POST, and
// misbehaves on command. It drops answers before it acts and after, answers twice, changes its mind,
// forgets jobs, throttles, hangs, and sends callbacks early, late, twice and in the wrong order.
//
// What it says cannot be trusted, what it writes down can: an append-only log, synced to the disk
// before anybody hears of a thing, holds every job that it really started and how that ended. A test
// judges by the log.
//
// Every mode is a service of its own, under its own path:
//
//   - /safe/ acts once for a key (Idempotency-Key), also when it has forgotten the job itself.
//   - /unsafe/ knows nothing of keys: every POST that acts starts a job. Its find is sure all the
//     same: a POST that was still on its way when find said no never acts, and of a job that is
//     forgotten it says that there was one (410).
//
// In each, POST jobs starts a job, GET jobs/ID tells how it is, DELETE jobs/ID asks it to end, GET
// find?key=KEY finds it, GET jobs lists.
package service
