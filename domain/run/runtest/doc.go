// Package runtest holds what tests of runs share: a second, deliberately dumb
// implementation to compare package run with, generators of events, and a small
// language in which tests tell runs and events.
package runtest
