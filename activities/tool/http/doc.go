// Package http uses a service that is asked over HTTP as a tool: a POST with the submission key
// starts a job, a GET looks at it, a DELETE asks it to end.
//
// The executor keeps nothing: everything it has to know again lies in the handle, and all else in
// the service. So what it can promise is what the service holds to, as its operator declares
// ([Config.Idempotent], [Config.FindURL], [Config.FindSure]); see [Executor.Promises].
//
// Whether a request had its effect decides everything that follows, so each answer to a POST, and
// each way to get none, has its place in one table (statusRules): started, surely not started,
// refused for now, or not known. Nothing here repeats a POST by itself.
//
// What comes from outside is bounded, checked before it is used, and never followed to a place that
// the operator did not declare. docs/http.md is the long form, for those who write such a service.
package http
