package domaintest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wakepoint/wakepoint/domain"
)

// Disagreement is an event to which the domain and the oracle gave different
// answers, or an invariant that broke.
type Disagreement struct {
	Event domain.Event
	What  []string
}

// Error lists the differences, one a line.
func (d *Disagreement) Error() string {
	return fmt.Sprintf("%s at %d (attempt %d):\n  %s", d.Event.Type, d.Event.AtMs, d.Event.Attempt, strings.Join(d.What, "\n  "))
}

// Pair is a task and its oracle, fed with the same events.
type Pair struct {
	Task   domain.Task
	Ledger *domain.Ledger
	Oracle *Oracle
	// Outbox holds what the task had to tell.
	Outbox domain.Outbox
	// Careful looks for changes of the argument behind pointers at every step,
	// not only at every eighth.
	Careful bool
	steps   int
	told    map[string]bool
}

func (p *Pair) guard() guarded {
	p.steps++
	return guard(p.Task, p.Careful || p.steps%8 == 1)
}

// tell collects a notification; the second one of a state and version is one
// too many.
func (p *Pair) tell(n domain.Notification) []string {
	key := fmt.Sprintf("%s@%d", n.State, n.Version)
	if p.told[key] {
		return []string{"told twice: " + key}
	}
	if p.told == nil {
		p.told = map[string]bool{}
	}
	p.told[key] = true
	p.Outbox.Add(n)
	return nil
}

// NewPair makes a task and its oracle. An invalid creation gives the domain's
// error, if the oracle calls it invalid too.
func NewPair(c domain.Create) (*Pair, error) {
	t, err := domain.New(c)
	o, ok := NewOracle(c)
	switch {
	case err == nil && !ok:
		return nil, &Disagreement{What: []string{"a creation that the oracle calls invalid"}}
	case err != nil && ok && c.Policy.Validate() == nil && c.Priority == 0:
		return nil, &Disagreement{What: []string{"a creation that only the domain calls invalid: " + err.Error()}}
	case err != nil:
		return nil, err
	}
	return &Pair{Task: t, Ledger: &domain.Ledger{}, Oracle: o}, nil
}

// Apply gives an event to both. The error is a [Disagreement], or the
// domain.InvalidError on which both agree.
func (p *Pair) Apply(e domain.Event) (domain.Transition, error) {
	guarded := p.guard()
	tr, err := domain.Apply(guarded.task, e)
	what := guarded.broken(e, tr, err)
	v, ok := p.Oracle.Apply(e)
	what = append(what, compare(v, ok, verdictOf(tr), err)...)
	return tr, p.settle(e, tr, err, what)
}

// Callback gives a callback to both through the door of signals.
func (p *Pair) Callback(c domain.Callback, nowMs int64) (domain.Transition, domain.Outcome, error) {
	guarded := p.guard()
	tr, out, err := domain.Receive(guarded.task, p.Ledger, c, c.Event.Digest(), nowMs)
	clamped := c.Event
	if !p.Task.Policy.TrustTimes && (clamped.AtMs == 0 || clamped.AtMs > nowMs) {
		clamped.AtMs = nowMs
	}
	what := guarded.broken(clamped, tr, err)
	v, ok := p.Oracle.Receive(c, nowMs)
	got := verdictOf(tr)
	got.Reason, got.Changed, got.Duplicate = string(out.Reason), out.Changed, out.Duplicate
	got.Late, got.Conflict = out.Late, out.Conflict
	if ok && !v.Conflict && v.Reason != "duplicate-callback" && tr.Reason == domain.ReasonDuplicateCallback {
		// The same delivery again: told its first answer, but not acted upon.
		got.Notify = v.Notify
	}
	what = append(what, compare(v, ok, got, err)...)
	if p.Ledger.Repeats != p.Oracle.Repeats || p.Ledger.Conflicts != p.Oracle.Conflicts {
		what = append(what, fmt.Sprintf("repeats and conflicts: oracle %d and %d, domain %d and %d",
			p.Oracle.Repeats, p.Oracle.Conflicts, p.Ledger.Repeats, p.Ledger.Conflicts))
	}
	return tr, out, p.settle(c.Event, tr, err, what)
}

// Update gives a callback to both through the door of updates: the validator
// first, and what it lets in to the handler.
func (p *Pair) Update(c domain.Callback, nowMs int64) (domain.Transition, domain.Outcome, error) {
	v, refuses := p.Oracle.Refuses(c, nowMs)
	err := domain.Admit(p.Task, p.Ledger, c, c.Event.Digest(), nowMs)
	var refused *domain.RefusedError
	switch turnedAway := errors.As(err, &refused); {
	case turnedAway != refuses:
		return domain.Transition{}, domain.Outcome{}, &Disagreement{c.Event, []string{fmt.Sprintf("refused: oracle %v, domain %v (%v)", refuses, turnedAway, err)}}
	case turnedAway && string(refused.Outcome.Reason) != v.Reason:
		return domain.Transition{}, domain.Outcome{}, &Disagreement{c.Event, []string{fmt.Sprintf("reason of the refusal: oracle %s, domain %s", v.Reason, refused.Outcome.Reason)}}
	case turnedAway:
		return domain.Transition{Task: p.Task, Reason: refused.Outcome.Reason}, refused.Outcome, err
	}
	return p.Callback(c, nowMs)
}

func (p *Pair) settle(e domain.Event, tr domain.Transition, err error, what []string) error {
	if err == nil {
		what = append(what, p.Oracle.Differences(tr.Task)...)
		p.Task = tr.Task
		if tr.Notification != nil {
			what = append(what, p.tell(*tr.Notification)...)
		}
		if tr.LateNotification != nil {
			what = append(what, p.tell(*tr.LateNotification)...)
		}
		if len(p.told) != len(p.Oracle.Notified) {
			what = append(what, fmt.Sprintf("told: oracle %v, domain %v", p.Oracle.Notified, p.told))
		}
	}
	if len(what) > 0 {
		return &Disagreement{Event: e, What: what}
	}
	return err
}

func verdictOf(tr domain.Transition) Verdict {
	return Verdict{Reason: string(tr.Reason), Changed: tr.Changed, Duplicate: tr.Duplicate, Notify: tr.Notify, Late: tr.Late}
}

func compare(want Verdict, ok bool, got Verdict, err error) []string {
	switch {
	case err != nil && ok:
		return []string{fmt.Sprintf("only the domain calls it invalid: %v; the oracle says %+v", err, want)}
	case err == nil && !ok:
		return []string{fmt.Sprintf("only the oracle calls it invalid; the domain says %+v", got)}
	case err == nil && want != got:
		return []string{fmt.Sprintf("oracle %+v\n  domain %+v", want, got)}
	}
	return nil
}
