package run

// Limits of what comes in, in bytes where nothing else is said. Together they keep
// what a run carries over a continue-as-new below the 2 MiB at which Temporal refuses
// a payload, whatever runtimes and people send.
const (
	// MaxOpenBytes is how large calls, answers and inputs may become together by what
	// runtimes and people send, as JSON: commits, inputs, answers and decisions that would
	// make them larger are refused. The rest of the 2 MiB is for what cannot be refused,
	// 100 ends and 100 late ones with 2 KiB of reference and some error each, and for what
	// is kept of the past.
	MaxOpenBytes = 576 << 10
	// MaxCheckpoint is the largest checkpoint.
	MaxCheckpoint = 16 << 20
	// KeptSuperseded is how many checkpoints that others have taken the place of stay in
	// the blob store. When there are MaxSuperseded, the others are deleted at once, so that
	// a long run does not keep every checkpoint that it ever had.
	KeptSuperseded = 2
	MaxSuperseded  = 8
	// MaxInline is the largest checkpoint or final answer that is kept in the run
	// itself; what is larger goes into the blob store.
	MaxInline = 64 << 10
	// MaxFinal is the largest final answer.
	MaxFinal = 1 << 20
	// MaxInlineResult is the largest result that a step is given whole, and
	// MaxInlineResults how many bytes of results it is given together.
	MaxInlineResult  = 16 << 10
	MaxInlineResults = 256 << 10
	// MaxPreview is the beginning of a larger one.
	MaxPreview = 1 << 10
	// MaxCallInput bounds the input of one call, MaxCallInputs those of all calls
	// whose results have not been committed.
	MaxCallInput  = 256 << 10
	MaxCallInputs = 512 << 10
	// MaxStepCalls is how many calls one step may ask for.
	MaxStepCalls = 100
	// MaxOpen is how many calls may be without a committed result, and MaxKept how many
	// are kept together with those whose results other calls still need.
	MaxOpen = 100
	MaxKept = 200
	// MaxInput bounds one thing that is said to a run, MaxInputs and MaxInputBytes
	// what waits for the next step together.
	MaxInput      = 64 << 10
	MaxInputs     = 100
	MaxInputBytes = 256 << 10
	// MaxOutput bounds one output; a run keeps the newest outputs of MaxOutputs and
	// MaxOutputBytes together.
	MaxOutput      = 16 << 10
	MaxOutputs     = 16
	MaxOutputBytes = 64 << 10
	// MaxErrorMessage is how much of the message of a call's error is kept, and
	// MaxErrorDetails how large its details may be to be kept.
	MaxErrorMessage = 1 << 10
	MaxErrorDetails = 1 << 10
	MaxAnswer       = 16 << 10
	MaxToken        = 128
	MaxText         = 200
	// MaxUsages is how many models one step may account for.
	MaxUsages = 32
	// MaxPastBytes bounds each of the lists of what is kept of the past, as JSON: calls,
	// ids of inputs, entries of the history, commits.
	MaxPastBytes = 64 << 10
	// MaxCommits is how many commits are remembered, to tell a repeat from a conflict.
	MaxCommits = 64
	// MaxInputIDs is how many ids of inputs that a step has taken are remembered.
	MaxInputIDs = 256
	// MaxDone is how many calls whose results were committed are still shown.
	MaxDone = 64
	// HistoryLimit is how many of its newest entries a run keeps.
	HistoryLimit = 64
)

// The defaults of a [Policy] and of the limits of a run.
const (
	DefaultLeaseMs       = 60_000
	DefaultStepAttempts  = 10
	DefaultCancelGraceMs = 2 * 60_000
	DefaultCheckEveryMs  = 60_000
	DefaultApprovalMs    = 7 * 24 * 3600_000
	DefaultMaxSteps      = 1000
	DefaultMaxCalls      = 5000
	DefaultMaxOpenCalls  = 50
	DefaultTTLMs         = 30 * 24 * 3600_000
)
