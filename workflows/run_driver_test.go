package workflows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The driver of the property test: it lives one run with what a seed brings about, over
// any number of continue-as-new, and keeps the log of what runtimes and people saw.

// simEntry is one line of that log; one of its fields is set.
type simEntry struct {
	handed *protocol.Claimed
	acked  *simAck
	said   *protocol.RunSaid
	// told is the task of whose end the run has been told.
	told string
	// paused and unpaused are acknowledged.
	paused, unpaused bool
	// stopped is a call that somebody was promised to be given up.
	stopped *run.Key
}

// simAck is a commit that was acknowledged as the one that ended its step, or as a
// repeat of it.
type simAck struct {
	commit    protocol.Commit
	duplicate bool
}

// simHand is a step in the hands of a runtime. It answers the same when it is asked
// twice.
type simHand struct {
	req  run.StepRequest
	body run.StepResponse
}

// simSignal is a signal on its way.
type simSignal struct {
	due  int
	name string
	arg  any
	log  simEntry
}

// simFault is what a run of the property test gets wrong; see faults there.
type simFault struct {
	name string
	// apply stands for [run.Apply] and begins anew for each run, border is what goes
	// wrong at a continue-as-new.
	apply  func() func(run.Run, run.Event) (run.Transition, error)
	border func(s *sim, c *protocol.RunCarry)
}

// sim is one run of the property test.
type sim struct {
	t     testing.TB
	seed  uint64
	lot   *rand.Rand
	w     *simWorld
	agent *simAgent
	fault simFault

	e     *runEnv
	ticks int
	// retries counts how often the run was retried after it had failed.
	retries int
	// life counts the executions of the workflow, length stands for its history.
	life, length int
	// suggesting counts how often the run was woken though it was time to continue as
	// new; it is negative while it is not.
	suggesting int
	hands      []*simHand
	waiting    []*simSignal
	sent       []*simSignal
	unread     []*simSignal
	inputs     []protocol.RunSaid
	paused     bool
	cancelled  bool
	log        []simEntry
	wrong      []string
	record     *protocol.RunRecord
}

// simTicks is when a run begins to be brought to its end, simMost when it must have come.
const (
	simTicks = 70
	simMost  = 600
	// simRetries is how often a run is retried.
	simRetries = 3
)

func newSim(t testing.TB, seed uint64, f simFault) *sim {
	t.Helper()
	lot := rand.New(rand.NewPCG(seed, 1))
	return &sim{
		t: t, seed: seed, lot: lot, w: newSimWorld(seed), fault: f,
		agent: &simAgent{lot: rand.New(rand.NewPCG(seed, 2)), most: 2 + lot.IntN(7)},
	}
}

// live lives the run to its end.
func (s *sim) live() {
	in := pulls(func(in *protocol.RunInput) {
		in.Create.ID = fmt.Sprintf("seed-%d.%s", s.seed, strings.ReplaceAll(s.fault.name, " ", "-"))
		in.Create.Policy = run.Policy{StepAttempts: 10_000, StepBackoff: domain.Backoff{InitialMs: 1000, MaxMs: 5000}, CancelGraceMs: 60_000}
		if s.lot.IntN(2) == 0 {
			in.ContinueAfterEvents = 30 + s.lot.IntN(100)
		}
	})
	s.w.run = in.Create.ID
	if s.fault.apply != nil {
		workflows.InjectFault(in.Create.ID, s.fault.apply())
	}
	first := protocol.RunSaid{InputID: in.Create.Input.InputID, Content: in.Create.Input.Content, Source: in.Create.Input.Source}
	s.inputs, s.log = append(s.inputs, first), append(s.log, simEntry{said: &first})
	now := start
	for {
		s.life++
		s.length, s.suggesting = 4, -1<<30
		w := &runWorld{begin: s.w.begin, watch: s.w.watch, told: s.w.told}
		s.w.early = s.early
		s.e = newRunEnv(s.t, w)
		s.e.SetStartTime(now)
		s.e.SetCurrentHistoryLength(s.length)
		s.e.at(time.Millisecond, s.tick)
		s.e.ExecuteWorkflow(protocol.WorkflowAgentRun, in)
		now = s.e.Now().Add(time.Second)
		var can *workflow.ContinueAsNewError
		if !errors.As(s.e.GetWorkflowError(), &can) {
			if s.end(); s.retry(&in) {
				continue
			}
			return
		}
		in = protocol.RunInput{}
		if err := converter.GetDefaultDataConverter().FromPayloads(can.Input, &in); err != nil || in.Carry == nil {
			s.fail("what is carried over: %v", err)
			return
		}
		// What the closed execution has not seen is the new one's to see. The first of
		// them is what it has continued with.
		s.unread = s.sent[min(1, len(s.sent)):]
		s.waiting, s.sent = append(s.sent, s.waiting...), nil
		if s.fault.border != nil {
			s.fault.border(s, in.Carry)
		}
	}
}

// retry makes a run that has failed go on. What was sent to it and that it has not read
// it never reads.
func (s *sim) retry(in *protocol.RunInput) bool {
	if s.record == nil || s.record.Run.State != run.StateFailed || s.retries == simRetries {
		return false
	}
	s.retries++
	in.Carry = &protocol.RunCarry{Run: s.record.Run, Retry: &protocol.RunRetry{By: "ann"}}
	s.record, s.sent = nil, nil
	s.paused, s.log = false, append(s.log, simEntry{unpaused: true})
	if s.fault.border != nil {
		s.fault.border(s, in.Carry)
	}
	return true
}

func (s *sim) fail(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// end reads the final record.
func (s *sim) end() {
	var rec protocol.RunRecord
	var app *temporal.ApplicationError
	var canceled *temporal.CanceledError
	err := s.e.GetWorkflowError()
	switch {
	case err == nil:
		err = s.e.GetWorkflowResult(&rec)
	case errors.As(err, &app):
		err = app.Details(&rec)
	case errors.As(err, &canceled):
		err = canceled.Details(&rec)
	}
	if err != nil || !rec.Run.State.Terminal() {
		s.fail("the run left no record: %v", err)
		return
	}
	s.record = &rec
}

// tick lets one thing happen, and comes again.
func (s *sim) tick() {
	s.ticks++
	s.length += 3
	s.e.SetCurrentHistoryLength(s.length)
	if s.ticks > simTicks {
		s.agent.finishing = true
	}
	if s.ticks < simMost {
		s.e.at(time.Duration(500+s.lot.IntN(15_000))*time.Millisecond, s.tick)
	}
	if s.deliver() {
		return
	}
	s.act()
}

// deliver sends what is due. Signals that come together are there together: only the
// last one wakes the run, or, when it is time to continue as new, the first one, so that
// the others come too late for this execution.
func (s *sim) deliver() bool {
	var due []*simSignal
	s.waiting = slices.DeleteFunc(s.waiting, func(x *simSignal) bool {
		if x.due <= s.ticks {
			due = append(due, x)
		}
		return x.due <= s.ticks
	})
	if len(due) == 0 {
		return false
	}
	s.lot.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	border := s.lot.IntN(6) == 0
	if border {
		s.suggest()
		// It says nothing, but the run looks.
		due = slices.Insert(due, 0, &simSignal{name: protocol.SignalRunAsks, arg: subAsk("nobody", "")})
	}
	s.sent = append(s.sent, due...)
	// It may be busy starting calls for a moment.
	if s.suggesting++; s.suggesting > 5 {
		s.fail("the run does not continue as new though it is time")
		s.suggesting = -1 << 30
	}
	for i, x := range due {
		if i < len(due)-1 && !border {
			s.e.SignalWorkflowSkippingWorkflowTask(x.name, x.arg)
		} else {
			s.e.SignalWorkflow(x.name, x.arg)
		}
		s.e.at(0, func() { s.seen(x) })
	}
	return true
}

// seen says that a signal has reached the run.
func (s *sim) seen(x *simSignal) {
	s.sent = slices.DeleteFunc(s.sent, func(y *simSignal) bool { return y == x })
	s.log = append(s.log, x.log)
}

func (s *sim) suggest() {
	s.e.SetContinueAsNewSuggested(true)
	s.suggesting = max(s.suggesting, 0)
}

// act lets one of the many things happen.
func (s *sim) act() {
	if s.agent.finishing && s.paused {
		s.pause(protocol.UpdateUnpause)
		return
	}
	switch n := s.lot.IntN(100); {
	case n < 28:
		s.claim()
	case n < 50:
		s.commit()
	case n < 70:
		s.finishTasks()
	case n < 80:
		s.decide()
	case n < 88:
		s.say()
	case n < 92:
		s.heartbeat()
	case n < 94:
		s.cancelCall()
	case n < 96:
		if name := protocol.UpdatePause; s.paused {
			s.pause(protocol.UpdateUnpause)
		} else {
			s.pause(name)
		}
	case n < 99:
		s.suggest()
		s.commit()
	case s.seed%15 == 0 && !s.cancelled:
		s.cancelled = true
		s.e.update(protocol.UpdateCancel, protocol.Cancel{By: "ann", Reason: "enough"})
	}
}

// claim takes the step for one of the runtime's processes; one of them has lost what it
// held when it comes again.
func (s *sim) claim() {
	c := protocol.Claim{Holder: []string{"w1", "w2", ""}[s.lot.IntN(3)]}
	if s.lot.IntN(2) == 0 {
		c.LeaseMs = int64(5_000 + s.lot.IntN(60_000))
	}
	s.e.update(protocol.UpdateClaim, c, func(r *runReply) {
		if r.err != nil {
			return
		}
		// As it comes over the wire.
		var got protocol.Claimed
		b, err := json.Marshal(r.claimed)
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		if err != nil {
			s.fail("a step cannot be read: %v", err)
			return
		}
		s.log = append(s.log, simEntry{handed: &got})
		s.hands = append(s.hands, &simHand{req: got.Request, body: s.agent.answer(got.Request)})
	})
}

// commit answers a step: most often the newest one, sometimes one that was lost long
// ago, sometimes twice at once with different answers, sometimes with an error.
func (s *sim) commit() {
	if len(s.hands) == 0 {
		s.claim()
		return
	}
	h := s.hands[len(s.hands)-1]
	if s.lot.IntN(5) == 0 {
		h = s.hands[max(0, len(s.hands)-1-s.lot.IntN(4))]
	}
	switch s.lot.IntN(10) {
	case 0:
		bodies := []run.StepResponse{h.body, s.agent.answer(h.req)}
		s.lot.Shuffle(2, func(i, j int) { bodies[i], bodies[j] = bodies[j], bodies[i] })
		s.answer(h, bodies[0])
		s.answer(h, bodies[1])
	case 1:
		forGood := s.seed%3 == 0 && s.retries < simRetries && s.lot.IntN(2) == 0
		s.answer(h, run.StepResponse{Error: &domain.TaskError{Message: "hiccup", Retryable: !forGood}})
	case 2:
		s.answer(h, s.agent.answer(h.req))
	default:
		s.answer(h, h.body)
	}
}

func (s *sim) answer(h *simHand, body run.StepResponse) {
	s.w.heed(h.req.Step, body.ToolCalls)
	c := commitOf(h.req.Step, h.req.StepToken, body)
	s.e.update(protocol.UpdateCommit, c, func(r *runReply) {
		if r.err != nil || body.Error != nil {
			return
		}
		switch reason := r.out.Reason; reason {
		case run.ReasonCommitted, run.ReasonFinished:
			s.log = append(s.log, simEntry{acked: &simAck{commit: c, duplicate: r.out.Duplicate}})
		default:
			s.fail("a commit came to %s", reason)
		}
	})
}

// finishTasks lets tasks end, and the news of it come late, in any order, repeatedly or
// never.
func (s *sim) finishTasks() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	open := s.w.open()
	if len(open) == 0 {
		return
	}
	for range 1 + s.lot.IntN(2) {
		t := open[s.lot.IntN(len(open))]
		if t.end != nil {
			continue
		}
		s.w.end(t, s.lot)
		t.lost = s.lot.IntN(8) == 0 && !s.w.patient[t.id]
		if t.lost {
			continue
		}
		for range 1 + s.lot.IntN(3) {
			s.tell(t, s.ticks+s.lot.IntN(6))
		}
	}
}

func (s *sim) tell(t *simTask, due int) {
	name, arg := t.news()
	s.waiting = append(s.waiting, &simSignal{due: due, name: name, arg: arg, log: simEntry{told: t.id}})
}

// early tells of an end before the start has been answered. It runs beside the driver.
func (s *sim) early(t *simTask) {
	name, arg := t.news()
	s.e.SignalWorkflow(name, arg)
	told := *t
	s.e.at(0, func() { s.log = append(s.log, simEntry{told: told.id}) })
}

// decide is a person who approves, denies, edits or answers.
func (s *sim) decide() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if len(s.w.asked) == 0 {
		return
	}
	i := s.lot.IntN(len(s.w.asked))
	k := s.w.asked[i]
	id := protocol.CallID{ToolCallID: k.ID, AskedAtStep: k.Step}
	if s.w.begun[k].Tool == run.ToolAsk {
		text := fmt.Sprintf(`"answer %d"`, s.ticks)
		s.e.update(protocol.UpdateAnswer, protocol.AnswerCall{CallID: id, Answer: json.RawMessage(text), By: "ann"}, s.decided(k, s.w.answered, text))
		return
	}
	a := protocol.Approve{CallID: id, Decision: []string{run.DecisionApprove, run.DecisionDeny, run.DecisionEdit}[s.lot.IntN(3)], By: "ann"}
	if a.Decision == run.DecisionEdit {
		a.Input = json.RawMessage(simEdited)
	}
	s.e.update(protocol.UpdateApprove, a, s.decided(k, s.w.approved, a.Decision))
}

// decided notes a decision that counts.
func (s *sim) decided(k run.Key, in map[run.Key]string, what string) func(*runReply) {
	return func(r *runReply) {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		if r.err == nil && r.out.Changed {
			in[k] = what
		} else if reasonOf(r) == run.ReasonNotAsked && s.lot.IntN(6) > 0 {
			return // not yet
		}
		s.w.asked = slices.DeleteFunc(s.w.asked, func(x run.Key) bool { return x == k })
	}
}

// reasonOf is why an update was refused.
func reasonOf(r *runReply) run.Reason {
	var app *temporal.ApplicationError
	var out run.Outcome
	if errors.As(r.err, &app) && app.Details(&out) == nil {
		return out.Reason
	}
	return ""
}

// say says something, by one door or the other; sometimes again, sometimes something
// else under the same id.
func (s *sim) say() {
	said := protocol.RunSaid{InputID: fmt.Sprintf("in-%d", len(s.inputs)), Content: json.RawMessage(fmt.Sprintf(`{"n":%d}`, len(s.inputs))), Source: "ann"}
	switch s.lot.IntN(4) {
	case 0:
		said = s.inputs[s.lot.IntN(len(s.inputs))]
	case 1:
		said.InputID = s.inputs[0].InputID
		s.e.update(protocol.UpdateInput, said, func(r *runReply) {
			if r.err == nil {
				s.fail("an id was taken for another input: %s", said.InputID)
			}
		})
		return
	default:
		s.inputs = append(s.inputs, said)
	}
	if s.lot.IntN(2) == 0 {
		s.waiting = append(s.waiting, &simSignal{due: s.ticks + s.lot.IntN(3), name: protocol.SignalInput, arg: said, log: simEntry{said: &said}})
		return
	}
	s.e.update(protocol.UpdateInput, said, func(r *runReply) {
		if r.err == nil {
			s.log = append(s.log, simEntry{said: &said})
		}
	})
}

func (s *sim) heartbeat() {
	if len(s.hands) > 0 {
		h := s.hands[max(0, len(s.hands)-1-s.lot.IntN(2))]
		s.e.update(protocol.UpdateHeartbeat, protocol.StepHeartbeat{StepToken: h.req.StepToken, Delta: json.RawMessage(`"…"`)})
	}
}

func (s *sim) cancelCall() {
	var open []run.Key
	if len(s.hands) > 0 {
		for _, p := range s.hands[len(s.hands)-1].req.Pending {
			open = append(open, run.Key{Step: p.AskedAtStep, ID: p.ToolCallID})
		}
		for _, c := range s.hands[len(s.hands)-1].body.ToolCalls {
			open = append(open, run.Key{Step: s.hands[len(s.hands)-1].req.Step, ID: c.ToolCallID})
		}
	}
	if len(open) == 0 {
		return
	}
	k := open[s.lot.IntN(len(open))]
	s.e.update(protocol.UpdateCancelCall, protocol.CancelOneCall{CallID: protocol.CallID{ToolCallID: k.ID, AskedAtStep: k.Step}, By: "ann"}, func(r *runReply) {
		if r.err == nil && r.out.Changed {
			s.log = append(s.log, simEntry{stopped: &k})
		}
	})
}

func (s *sim) pause(name string) {
	s.e.update(name, protocol.Pause{By: "ann"}, func(r *runReply) {
		if r.err == nil && r.out.Changed {
			s.paused = name == protocol.UpdatePause
			s.log = append(s.log, simEntry{paused: s.paused, unpaused: !s.paused})
		}
	})
}
