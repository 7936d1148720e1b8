// Package protocol is Wakepoint's public contract with Temporal: the types of
// its workflows, their ids, the names of signals, updates, queries and
// activities, the messages that go with them, the type strings of errors and
// the keys of search attributes.
//
// Whoever has a Temporal client, in any language, can take part with what
// stands here: docs/wire.md shows it with examples. The package is append-only.
// A field may be added, never renamed or given another meaning; whoever reads
// ignores what it does not know. Golden files hold the JSON.
package protocol
