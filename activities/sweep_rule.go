package activities

import (
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/store/blobref"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// safetyAge is how old something must be to be deleted because there is no task or run
// of its name: a result may be stored a moment before its task can be found.
const safetyAge = time.Hour

// Lifetimes are how long results are kept after the end of their task, and contents of
// runs after that of their run.
type Lifetimes struct {
	// Result is the installation's, for runs and for a task that has none of its own.
	// Default: [config.DefaultResultTTL].
	Result time.Duration
	// Shortest and Longest are of all tools and the installation. Default: Result.
	Shortest, Longest time.Duration
}

// LifetimesOf takes them from a configuration.
func LifetimesOf(c *config.Config) Lifetimes {
	l := Lifetimes{Result: c.ResultTTL, Shortest: c.ResultTTL, Longest: c.ResultTTL}
	for _, t := range c.Tools {
		l.Shortest, l.Longest = min(l.Shortest, t.ResultTTL), max(l.Longest, t.ResultTTL)
	}
	return l
}

func (l Lifetimes) withDefaults() Lifetimes {
	if l.Result == 0 {
		l.Result = config.DefaultResultTTL
	}
	if l.Shortest == 0 {
		l.Shortest = l.Result
	}
	if l.Longest == 0 {
		l.Longest = l.Result
	}
	return l
}

// unrecorded is how long what something left is kept when its record is not known: of a
// task one does not know its tool either.
func (l Lifetimes) unrecorded(o owner) time.Duration {
	if o.kind == blobref.KindRun {
		return l.Result
	}
	return l.Longest
}

// young says that something is not due whatever became of its task: tasks end after
// what they leave was made. It spares most look-ups. A result that was stored some time
// after the end, because nobody looked at the job before, stays that much longer.
func (l Lifetimes) young(madeAt, now time.Time) bool { return now.Sub(madeAt) < l.Shortest }

// gone says that what was made then may go when there is no task of its name. It is
// kept as long as if its task had just ended, at least: when two engines share a
// store by mistake, neither takes from the other what is not due anyway.
func (l Lifetimes) gone(madeAt, now time.Time) bool {
	return !madeAt.IsZero() && now.Sub(madeAt) >= max(safetyAge, l.Longest)
}

// due is why something is deleted.
type due string

// The reasons.
const (
	dueNot      due = ""
	dueGone     due = "gone"
	dueOutlived due = "outlived"
)

// owner is what something is kept for: a task or a run.
type owner struct {
	kind blobref.Kind
	id   string
}

func ofTask(id string) owner { return owner{blobref.KindTask, id} }

// String names it in errors.
func (o owner) String() string { return string(o.kind) + " " + o.id }

func (o owner) workflowID(tenant string) string {
	if o.kind == blobref.KindRun {
		return protocol.RunWorkflowID(tenant, o.id)
	}
	return protocol.TaskWorkflowID(tenant, o.id)
}

// fate is what became of the task or the run that something was kept for. The zero
// value is one that is open.
type fate struct {
	// gone says that the engine knows no such task or run.
	gone bool
	// closed says that its workflow has closed, and runID which run of it did.
	closed bool
	runID  string
	// until is when the lifetime after a close is over.
	until time.Time
	// retryable says that a person may still have a closed task or run retried.
	retryable bool
}

// blob says whether something in the store may go.
func (f fate) blob(o owner, l Lifetimes, madeAt, now time.Time) due {
	if o.kind == blobref.KindRun {
		return f.content(l, madeAt, now)
	}
	return f.result(l, madeAt, now)
}

// result says whether a stored result may go. It does not matter which attempt left
// it: a task that was retried is open again and keeps all.
func (f fate) result(l Lifetimes, madeAt, now time.Time) due {
	switch {
	case f.gone && l.gone(madeAt, now):
		return dueGone
	case f.closed && !now.Before(f.until):
		return dueOutlived
	}
	return dueNot
}

// content says whether a checkpoint or a final answer of a run may go. A run that can be
// retried keeps all: unlike a task, which begins anew, it goes on from its checkpoint,
// and without that a retry would have to begin again what was done and paid for.
func (f fate) content(l Lifetimes, madeAt, now time.Time) due {
	if f.closed && f.retryable {
		return dueNot
	}
	return f.result(l, madeAt, now)
}

// job says whether what is kept of an outside job may go. A job that did its work, or
// of which nobody knows, stays while its task could be retried: the retry finds it and
// does not do the work again.
func (f fate) job(l Lifetimes, s tool.State, startedAt, now time.Time) due {
	if s == tool.StateRunning {
		return dueNot
	}
	definite := s == tool.StateFailed || s == tool.StateCancelled
	if f.closed && f.retryable && !definite {
		return dueNot
	}
	return f.result(l, startedAt, now)
}
