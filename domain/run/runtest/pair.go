package runtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// Disagreement is an event to which package run and the oracle gave different answers,
// or an invariant that broke.
type Disagreement struct {
	Event run.Event
	What  []string
}

// Error lists the differences, one a line.
func (d *Disagreement) Error() string {
	b, err := json.Marshal(d.Event)
	if err != nil {
		b = []byte(err.Error())
	}
	return fmt.Sprintf("%s\n  %s", b, strings.Join(d.What, "\n  "))
}

// Pair is a run and its oracle, fed with the same events, and what was seen of it.
type Pair struct {
	Run    run.Run
	Oracle *Oracle
	// Careful looks for changes of the argument behind pointers at every event, not only
	// at every eighth.
	Careful bool
	events  int
	ledger  ledger
}

// NewPair makes a run and its oracle.
func NewPair(c run.Create) (*Pair, error) {
	r, err := run.New(c)
	if err != nil {
		return nil, err
	}
	p := &Pair{Run: r, Oracle: NewOracle(c)}
	return p, p.judge(run.Event{}, p.Oracle.differences(r, 0))
}

// Apply gives an event to both. The error is a [Disagreement], or the
// [domain.InvalidError] on which both agree.
func (p *Pair) Apply(e run.Event) (run.Transition, error) {
	p.events++
	deep := p.Careful || p.events%8 == 1
	arg := guard(p.Run, deep)
	tr, err := run.Apply(arg.run, e)
	what := arg.broken(e, tr, err)
	if err != nil && !errors.Is(err, domain.ErrInvalid) {
		return tr, err
	}
	want, ok := p.Oracle.Apply(e)
	o := tr.Outcome
	got := Verdict{Reason: string(o.Reason), Changed: o.Changed, Duplicate: o.Duplicate, State: string(o.State), Version: o.Version, Step: o.Step}
	switch {
	case err != nil && ok:
		what = append(what, fmt.Sprintf("only the domain calls it invalid: %v; the oracle says %+v", err, want))
	case err == nil && !ok:
		what = append(what, fmt.Sprintf("only the oracle calls it invalid; the domain says %+v", got))
	case err == nil && want != got:
		what = append(what, fmt.Sprintf("oracle %+v\n  domain %+v", want, got))
	}
	if err == nil {
		what = append(what, p.ledger.book(p.Run, tr, e)...)
		what = append(what, p.Oracle.differences(tr.Run, max(e.AtMs, 0))...)
		p.Run = tr.Run
	}
	if j := p.judge(e, what); j != nil {
		return tr, j
	}
	return tr, err
}

func (p *Pair) judge(e run.Event, what []string) error {
	if len(what) > 0 {
		return &Disagreement{Event: e, What: what}
	}
	return nil
}

// Restart writes the run and reads it, as a continue-as-new does.
func (p *Pair) Restart() error {
	first, err := json.Marshal(p.Run)
	if err != nil {
		return err
	}
	var again run.Run
	if err := json.Unmarshal(first, &again); err != nil {
		return err
	}
	second, err := json.Marshal(again)
	if err != nil {
		return err
	}
	if string(first) != string(second) {
		return &Disagreement{What: []string{"the run is another one when it was read:", string(first), string(second)}}
	}
	p.Run = again
	return p.judge(run.Event{}, p.Oracle.differences(p.Run, 0))
}
