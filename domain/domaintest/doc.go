// Package domaintest helps to test what is built on package domain: an
// [Oracle] that answers every event by a second, dumber reading of the
// contract, a [Gen] that makes sequences of events worth trying, and short
// ways to write events and tasks.
package domaintest
