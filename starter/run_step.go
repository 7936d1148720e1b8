package starter

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/stepio"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// NextOptions say who asks for a step.
type NextOptions struct {
	// Holder names the runtime's process. One that asks again while it holds the step
	// has lost it, and gets the next attempt at once. Default: empty, nobody in
	// particular: a step that got lost on its way comes again when its lease is over.
	Holder string
	// Lease is how long the runtime may be silent. Default: that of the run.
	Lease time.Duration
	// RuntimeVersion takes steps of runs of that version only. Default: of any.
	RuntimeVersion string
	// Wait is how long to wait for a step while none can be had. Default: 0, not at all.
	Wait time.Duration
}

func (c *Client) checkNext(o NextOptions) error {
	switch {
	case o.Lease < 0 || o.Lease > 0 && o.Lease < time.Millisecond:
		return invalidf("leaseMs", "must be > 0, or absent; it is %s", o.Lease)
	case o.Lease > c.o.Config.MaxTTL:
		return invalidf("leaseMs", "must be at most %s, it is %s", config.FormatDuration(c.o.Config.MaxTTL), o.Lease)
	case o.Wait < 0:
		return invalidf("waitMs", "must be > 0, or absent; it is %s", o.Wait)
	}
	if err := checkText("holder", o.Holder, run.MaxText); err != nil {
		return invalid(err)
	}
	return invalid(checkText("runtimeVersion", o.RuntimeVersion, run.MaxText))
}

// Next takes the step of a run that is due, with the contents that the runtime is to
// have; see [stepio.Fill]. A blob store that doesn't answer is asked again for most of
// the lease. While there is no step, or somebody else holds it, it waits for
// the run to change, for as long as the options say; then the error is no-step or
// step-held, and asking again is fine. After any other error the step may have been
// handed out: the same Holder gets it again at once, anybody when its lease is over. A
// refusal is a [run.RefusedError] within the error. Errors: no-step, step-held,
// wrong-runtime, ended, invalid-request, unknown-run, result-missing and result-corrupt
// (of the checkpoint), terminated, no-worker, unavailable.
func (c *Client) Next(ctx context.Context, runID string, o NextOptions) (run.StepRequest, error) {
	if err := c.checkNext(o); err != nil {
		return run.StepRequest{}, err
	}
	claimed, err := c.claim(ctx, runID, o)
	if err != nil {
		return run.StepRequest{}, err
	}
	return c.fill(ctx, runID, claimed)
}

// fillsAgain is the pause before the contents of a step are read again, at first; it
// doubles up to fillsAgainAtMost.
const (
	fillsAgain       = 100 * time.Millisecond
	fillsAgainAtMost = 5 * time.Second
)

// fill reads the contents of a step that was claimed. A store that doesn't answer is asked
// again until three quarters of the lease are over: whoever asks for the step again takes
// its next attempt, and a store that is away for a minute must not use up all of them.
func (c *Client) fill(ctx context.Context, runID string, claimed protocol.Claimed) (run.StepRequest, error) {
	start, lease := time.Now(), time.Duration(claimed.Request.LeaseMs)*time.Millisecond
	for wait := fillsAgain; ; wait = min(2*wait, fillsAgainAtMost) {
		req, err := stepio.Fill(ctx, c.o.Store, c.o.Tenant, claimed.Request, claimed.Checkpoint)
		if err == nil {
			return req, c.holdOn(ctx, runID, req, time.Since(start))
		}
		err = c.contentError(ctx, "step of run "+runID, err)
		if CodeOf(err) != CodeUnavailable || time.Since(start)+wait > lease*3/4 {
			return run.StepRequest{}, err
		}
		if err := pause(ctx, wait); err != nil {
			return run.StepRequest{}, engineError(ctx, "next step of run "+runID, err)
		}
	}
}

// holdOn renews the lease of a step whose contents were long in coming: its runtime
// counts from when it has them. The error is that the step is somebody else's by now.
func (c *Client) holdOn(ctx context.Context, runID string, req run.StepRequest, waited time.Duration) error {
	if waited < time.Duration(req.LeaseMs)*time.Millisecond/4 {
		return nil
	}
	_, err := c.StepHeartbeat(ctx, runID, req.StepToken, nil)
	var refused *run.RefusedError
	if errors.As(err, &refused) {
		return err
	}
	// Not renewed it is still held for a while.
	return nil
}

// claim asks for the step until it has it, or until patience is over.
func (c *Client) claim(ctx context.Context, runID string, o NextOptions) (protocol.Claimed, error) {
	until := time.Now().Add(o.Wait)
	news := c.newsOf(ctx, runID)
	defer news.stop()
	m := message{name: protocol.UpdateClaim, arg: protocol.Claim{Holder: o.Holder, LeaseMs: o.Lease.Milliseconds(), RuntimeVersion: o.RuntimeVersion}}
	for refusals := 0; ; {
		// Until it is known what became of a claim it is the same one: a second one
		// would find the step held by the first.
		if m.updateID == "" {
			m.updateID = once()
		}
		var out protocol.Claimed
		err := c.askRun(ctx, runID, m, &out, func(rec protocol.RunRecord) error {
			return &run.RefusedError{Outcome: run.Outcome{Reason: run.ReasonRunClosed, State: rec.Run.State, Version: rec.Run.Version, Step: rec.Run.StepsDone}}
		}, nil)
		var refused *run.RefusedError
		switch {
		case err == nil:
			return out, nil
		case errors.As(err, &refused):
			m.updateID = ""
			refusals++
			err = refusedRun(runID, refused.Outcome)
			if r := refused.Outcome.Reason; r != run.ReasonNoStep && r != run.ReasonStepHeld {
				return out, err
			}
		case !errors.Is(err, ErrNoWorker):
			return out, err
		}
		left := time.Until(until)
		if left <= 0 {
			return out, err
		}
		if err := news.wait(ctx, left, refusals); err != nil {
			return out, engineError(ctx, "next step of run "+runID, err)
		}
	}
}

// contentError gives what the blob store says one of our codes.
func (c *Client) contentError(ctx context.Context, what string, err error) error {
	var wrong *domain.InvalidError
	switch {
	case errors.As(err, &wrong):
		return invalid(err)
	case over(ctx) != nil:
		return over(ctx)
	case errors.Is(err, stepio.ErrNoStore):
		return fail(CodeInternal, "give the client a Store", "the %s has contents in the blob store, and this client was given none", what).because(err)
	case errors.Is(err, store.ErrNotFound):
		return fail(CodeResultMissing, "check that it is the blob store that the workers use, and whether somebody deleted from it", "the blob store lacks contents of the %s", what).because(err)
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrRef):
		return fail(CodeResultCorrupt, "check the blob store", "stored contents of the %s are damaged", what).because(err)
	}
	return fail(CodeUnavailable, "check the blob store, then repeat", "the contents of the %s cannot be read or written", what).because(err)
}

// refusal of a run by its reason.
var runRefusals = map[run.Reason]struct {
	code          Code
	message, hint string
}{
	run.ReasonNoStep:         {CodeNoStep, "has no step to be taken now", "ask again, and wait for it"},
	run.ReasonStepHeld:       {CodeStepHeld, "has a step that another runtime holds", "ask again: it comes back when that runtime is silent for its lease"},
	run.ReasonWrongRuntime:   {CodeWrongRuntime, "belongs to another version of the runtime", "let a runtime of the run's version take its steps"},
	run.ReasonStaleToken:     {CodeStaleToken, "has given the step to a newer attempt, or it was committed by one", "drop the work, and ask for the next step"},
	run.ReasonCommitConflict: {CodeCommitConflict, "has the step committed with another answer", "drop the answer, and ask for the next step"},
	run.ReasonStepAhead:      {CodeStepAhead, "waits for the commit of an earlier step", "commit the steps in their order"},
	run.ReasonNothingToWait:  {CodeNothingToWait, "would wait for ever: the commit asks for nothing, and nothing is open", "ask for a call, say final, or await input"},
	run.ReasonRunEnding:      {CodeRunEnding, "is on its way to its end", "stop working on it"},
	run.ReasonRunClosed:      {CodeEnded, "has ended", "stop working on it"},
}

// refusedRun gives a refusal one of our codes; the outcome is within.
func refusedRun(runID string, out run.Outcome) error {
	cause := &run.RefusedError{Outcome: out}
	r, known := runRefusals[out.Reason]
	if !known {
		return fail(CodeConflict, "", "run %s refused: %s", runID, out.Reason).because(cause)
	}
	return fail(r.code, r.hint, "run %s %s; it %s", runID, r.message, RunStanding(out.State)).because(cause)
}

// refusedOr gives an error of a run one of our codes, and the outcome beside it.
func refusedOr(runID string, out run.Outcome, err error) (run.Outcome, error) {
	var refused *run.RefusedError
	if errors.As(err, &refused) {
		return refused.Outcome, refusedRun(runID, refused.Outcome)
	}
	return out, err
}

// Commit ends a step with what the runtime answered. Checkpoint and final answer are
// kept byte for byte, null is absent. The same commit again gets the same answer, also
// once the run has closed, so that a commit whose answer was lost is repeated as it was.
// Of two that differ one wins, and the other is refused. A refusal is a
// [run.RefusedError] within the error, and its outcome is given beside it. Errors:
// stale-token, commit-conflict, step-ahead, no-step, nothing-to-wait-for, run-ending,
// ended, invalid-request, unknown-run, terminated, no-worker, unavailable.
func (c *Client) Commit(ctx context.Context, runID string, step int, token string, resp run.StepResponse) (run.Outcome, error) {
	if err := domain.CheckID("runId", runID); err != nil {
		return run.Outcome{}, invalid(err)
	}
	if err := checkCommit(step, token, resp); err != nil {
		return run.Outcome{}, invalid(err)
	}
	resp, checkpoint, final, err := stepio.Pack(ctx, c.o.Store, c.o.Tenant, runID, resp)
	if err != nil {
		return run.Outcome{}, c.contentError(ctx, "commit of run "+runID, err)
	}
	msg := protocol.Commit{Step: step, StepToken: token, Response: resp, Checkpoint: checkpoint, Final: final, Digest: run.Digest(resp, checkpoint, final)}
	e := run.Event{
		Type: run.EventCommit, AtMs: c.o.Now(), Step: step, Token: token, Response: &resp, Checkpoint: checkpoint, Final: final, Digest: msg.Digest, By: "runtime",
	}
	if err := checkMessage("response", msg); err != nil {
		return run.Outcome{}, invalid(err)
	}
	var out run.Outcome
	m := message{name: protocol.UpdateCommit, updateID: commitID(msg), arg: msg}
	err = c.askRun(ctx, runID, m, &out, func(rec protocol.RunRecord) (err error) {
		if out, err = runOutcome(rec.Run, e); err == nil && !out.Duplicate {
			err = &run.RefusedError{Outcome: out}
		}
		return err
	}, nil)
	return refusedOr(runID, out, err)
}

// commitID is the same for the same commit, so that the engine itself answers a repeat.
// Attempts of a step have tokens of their own, and two answers have two digests.
func commitID(m protocol.Commit) string {
	return "commit/" + strconv.Itoa(m.Step) + "/" + m.StepToken + "/" + m.Digest
}

// checkCommit refuses what every run would refuse, before anything is stored.
func checkCommit(step int, token string, resp run.StepResponse) error {
	bare := run.Normal(resp)
	var final *run.Content
	if len(bare.Final) > 0 {
		final = run.Inline([]byte("0"), "")
	}
	bare.Checkpoint, bare.Final = nil, nil
	return run.CheckCommit(run.Event{Type: run.EventCommit, Step: step, Token: token, Response: &bare, Final: final})
}

// checkMessage checks that a message arrives as it is, and that it fits.
func checkMessage(field string, m any) error {
	b, err := json.Marshal(m)
	switch {
	case err != nil:
		return domain.Invalid(field, "must be sound JSON: %s", err.Error())
	case len(b) > domain.MaxBody:
		return domain.Invalid(field, "must be at most %d bytes, it has %d", domain.MaxBody, len(b))
	}
	return nil
}

// StepHeartbeat renews the lease of a step. The delta is a hint for people who watch,
// JSON of at most 16 KiB; it is not kept, and may be nil. Errors: stale-token, ended,
// invalid-request, unknown-run, terminated, no-worker, unavailable.
func (c *Client) StepHeartbeat(ctx context.Context, runID, token string, delta json.RawMessage) (run.Outcome, error) {
	if err := checkJSON("delta", delta, domain.MaxDetails, false); err != nil {
		return run.Outcome{}, invalid(err)
	}
	if err := checkText("stepToken", token, run.MaxToken); err != nil {
		return run.Outcome{}, invalid(err)
	}
	var out run.Outcome
	m := message{name: protocol.UpdateHeartbeat, updateID: once(), arg: protocol.StepHeartbeat{StepToken: token, Delta: delta}}
	err := c.askRun(ctx, runID, m, &out, func(rec protocol.RunRecord) (err error) {
		if out, err = runOutcome(rec.Run, run.Event{Type: run.EventHeartbeat, AtMs: c.o.Now(), Token: token}); err == nil {
			err = &run.RefusedError{Outcome: out}
		}
		return err
	}, nil)
	return refusedOr(runID, out, err)
}

// checkJSON checks a value that is passed on as it is.
func checkJSON(field string, b json.RawMessage, limit int, needed bool) error {
	switch {
	case len(b) == 0 && needed:
		return domain.Invalid(field, "must be given")
	case len(b) > limit:
		return domain.Invalid(field, "must be at most %d bytes of JSON, it has %d", limit, len(b))
	case len(b) > 0 && (!utf8.Valid(b) || !json.Valid(b)):
		return domain.Invalid(field, "must be valid JSON")
	}
	return nil
}
