package tool

import "context"

// Promises is what an executor can hold to, as far as the other side allows. The zero value
// promises nothing. Callers act on it: what they may repeat after a lost answer depends on it.
type Promises struct {
	// SubmitOnce is how far the key is a lock: where a second Submit of it starts no second job.
	SubmitOnce Scope `json:"submitOnce"`
	// Find is what its word is worth.
	Find FindWord `json:"find"`
	// Cancel is what it can do about a job that runs.
	Cancel CancelWord `json:"cancel"`
	// Observe says that a job can be looked at. Without it only a callback tells its end.
	Observe bool `json:"observe"`
	// List and Logs say that the executor is a [Lister] and a [LogReader].
	List bool `json:"list"`
	Logs bool `json:"logs"`
	// Survives says that a job goes on when the worker that started it is killed.
	Survives bool `json:"survives"`
	// Remembers says in words how long the outside knows a job that is over.
	Remembers string `json:"remembers,omitempty"`
}

// Scope is how far a submission key is a lock.
type Scope string

// The scopes, each wider than the one before.
const (
	// ScopeNone: a second Submit may start a second job.
	ScopeNone Scope = ""
	// ScopeHost: not on the same host, that is, by executors with the same task queue in their
	// handles.
	ScopeHost Scope = "host"
	// ScopeAlways: nowhere, as long as the outside remembers the job.
	ScopeAlways Scope = "always"
)

// FindWord is what Find's word is worth.
type FindWord string

// The words of Find.
const (
	// FindNone: Find never knows; it always says no.
	FindNone FindWord = ""
	// FindHint: a job that is found is there; one that is not may be there all the same, because
	// the outside lags behind or forgets.
	FindHint FindWord = "hint"
	// FindSure: when Find says no, no job was started, and no Submit that was begun before can
	// still start one.
	FindSure FindWord = "sure"
)

// CancelWord is what Cancel can do.
type CancelWord string

// The words of Cancel.
const (
	// CancelNone: nothing; the job runs to its end.
	CancelNone CancelWord = ""
	// CancelAsked: the job is asked, and may go on all the same.
	CancelAsked CancelWord = "asked"
	// CancelForced: the job ends, if need be by force, and Observe says that nothing of it runs.
	CancelForced CancelWord = "forced"
)

// Promiser is the optional ability of an executor to say what it can hold to.
type Promiser interface {
	Promises() Promises
}

// PromisesOf asks an executor; one that is no [Promiser] promises nothing.
func PromisesOf(ex Executor) Promises {
	if p, ok := ex.(Promiser); ok {
		return p.Promises()
	}
	return Promises{}
}

// Lister is the optional ability of an executor to list the jobs that the outside knows, so that
// jobs nobody waits for can be found.
type Lister interface {
	// List gives a page of jobs in no promised order, those that are over included as far as the
	// outside still knows them. An empty cursor begins; the page's Next goes on.
	List(ctx context.Context, cursor string) (Listing, error)
}

// Listing is a page of [Lister].
type Listing struct {
	Jobs []Listed `json:"jobs"`
	// Next is the cursor of the page that follows, empty after the last.
	Next string `json:"next,omitempty"`
}

// Listed is a job in a list.
type Listed struct {
	Handle Handle `json:"handle"`
	// SubmissionKey is the key that the job was submitted under.
	SubmissionKey string `json:"submissionKey"`
	// State is how it stands as far as the list tells.
	State State `json:"state"`
	// StartedAtMs is when it began, in milliseconds since the epoch; 0 is not known.
	StartedAtMs int64 `json:"startedAtMs,omitempty"`
}
