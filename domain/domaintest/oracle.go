package domaintest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/wakepoint/wakepoint/domain"
)

// Verdict is what the oracle answers to one event.
type Verdict struct {
	Reason    string
	Changed   bool
	Duplicate bool
	Notify    bool
	Late      bool
	Conflict  bool
}

// Line is one recorded event of the oracle's history, which is never cut.
type Line struct {
	Version int64
	Type    string
	AtMs    int64
}

// Oracle is a second, deliberately dumb implementation of a task, written from
// the contract and sharing no code with the rules of package domain: flags and
// long chains of ifs. It is slow, mutable and not for production; it is there
// to disagree. Make one with [NewOracle].
type Oracle struct {
	ID          string
	State       string
	ExpiresAtMs int64
	Attempts    int
	MaxAttempts int
	Progress    int
	Version     int64
	ResultRef   string
	ResultHash  string
	ErrorCode   string
	ErrorText   string
	History     []Line
	Notified    []string

	Stage       string
	CancelAsked bool
	Confirmed   string // "", "yes" or "no"
	Suspected   bool
	Retries     int
	Submission  int
	RetryAtMs   int64
	Asked       []string
	Answers     map[string]string
	LateHash    string
	Strict      bool
	RecordLate  bool
	GraceMs     int64
	Unsafe      bool
	// ToPerson says that unsafe work of unknown outcome goes to a person, Manual
	// that it has; Undo is the task that undoes it, UndoFailed that it could not.
	ToPerson   bool
	Manual     bool
	Undo       string
	UndoFailed string
	// Decided is the attempt that a person decided on, whatever the effects.
	Decided int
	Guests  []Guest
	EndKind string
	EndedBy string
	// ExpectsCallback says that an end found by looking is a callback lost.
	ExpectsCallback bool

	WaitMs    func(attempt int, lot float64) int64
	Repeats   int64
	Conflicts int64
	seen      map[string]memory
	order     []string
}

// NewOracle gives the oracle of a new task, or false when the contract calls
// the request invalid.
func NewOracle(c domain.Create) (*Oracle, bool) {
	if strings.TrimSpace(c.ID) == "" {
		return nil, false
	}
	if c.NowMs < 0 || c.TTLMs <= 0 || c.MaxAttempts < 1 {
		return nil, false
	}
	o := &Oracle{ID: c.ID, State: "queued", ExpiresAtMs: c.NowMs + c.TTLMs, MaxAttempts: c.MaxAttempts}
	o.Answers = map[string]string{}
	o.seen = map[string]memory{}
	o.Strict = c.Policy.Strict
	o.RecordLate = c.Policy.LatePolicy == "record"
	o.GraceMs = c.Policy.GraceMs
	if o.GraceMs == 0 {
		o.GraceMs = 3_600_000
	}
	o.Unsafe = c.Policy.Effects == "unsafe"
	o.ToPerson = c.Policy.OnUnknown == "manual"
	o.ExpectsCallback = c.Policy.ExpectsCallback
	o.Guests = []Guest{{ID: "submitter", Run: c.RunID, Call: c.ToolCallID, Came: c.NowMs}}
	o.WaitMs = c.Policy.Backoff.Wait
	return o, true
}

func (o *Oracle) ended() bool {
	return o.State == "succeeded" || o.State == "failed" || o.State == "expired" || o.State == "cancelled"
}

func (o *Oracle) write(kind string, atMs int64) {
	o.Version++
	o.History = append(o.History, Line{Version: o.Version, Type: kind, AtMs: atMs})
}

func (o *Oracle) tell() {
	o.Notified = append(o.Notified, fmt.Sprintf("%s@%d", o.State, o.Version))
}

func outside(kind domain.EventType) bool {
	return kind == "start" || kind == "progress" || kind == "heartbeat" || kind == "succeed" ||
		kind == "fail" || kind == "input-required" || kind == "cancelled"
}

func refuse(reason string) (Verdict, bool)  { return Verdict{Reason: reason}, true }
func repeat(reason string) (Verdict, bool)  { return Verdict{Reason: reason, Duplicate: true}, true }
func changed(reason string) (Verdict, bool) { return Verdict{Reason: reason, Changed: true}, true }
func told(reason string) (Verdict, bool) {
	return Verdict{Reason: reason, Changed: true, Notify: true}, true
}
func invalid() (Verdict, bool) { return Verdict{}, false }

// Apply gives what one event comes to; false means that it is invalid.
func (o *Oracle) Apply(e domain.Event) (Verdict, bool) {
	// Rule 1.
	if e.AtMs < 0 {
		return invalid()
	}
	late := outside(e.Type) && (e.AtMs >= o.ExpiresAtMs || o.State == "expired")
	v, ok := o.decide(e)
	v.Late = ok && late
	return v, ok
}

func (o *Oracle) decide(e domain.Event) (Verdict, bool) {
	if o.ended() {
		return o.afterTheEnd(e)
	}
	// Rule 3.
	if e.Type == "expire" || e.AtMs >= o.ExpiresAtMs {
		o.RetryAtMs = 0
		o.write("expire", o.ExpiresAtMs)
		kind := "timed-out"
		if o.Manual {
			kind = "outcome-unknown"
		}
		if e.Type == "expire" && e.Begun && o.Unsafe {
			kind = "outcome-unknown"
			o.ErrorCode = "OUTCOME_UNKNOWN"
			o.ErrorText = "the deadline came while a submission had no answer; it may have started a job"
		}
		o.end("expired", domain.Event{By: "timer"}, kind)
		if e.Type == "succeed" && o.keepsLate(e) {
			o.LateHash = e.ResultHash
			o.write("succeed", e.AtMs)
			o.tell()
		}
		return told("expired")
	}
	if o.stale(e) {
		return refuse("stale-attempt")
	}
	if o.undoing() && e.Type != "start" && e.Type != "heartbeat" && (outside(e.Type) || e.Type == "cancel-timeout") {
		return refuse("being-undone")
	}
	if e.Type == "start" {
		return o.start(e)
	}
	if e.Type == "progress" || e.Type == "succeed" || e.Type == "fail" || e.Type == "input-required" {
		return o.work(e)
	}
	if e.Type == "heartbeat" || e.Type == "cancelled" {
		return o.sign(e)
	}
	return o.within(e)
}

// stale is the attempt fence. What was never started is known to the outside
// as attempt 1.
func (o *Oracle) stale(e domain.Event) bool {
	if e.Type == "retry" || e.Type == "nonsense" || e.Type == "attach" || e.Type == "detach" {
		return false
	}
	if e.Attempt == 0 {
		return outside(e.Type) && o.Retries > 0
	}
	if o.State == "queued" && e.Type == "start" {
		return e.Attempt != o.Attempts+1
	}
	if o.Attempts == 0 {
		return e.Attempt != 1
	}
	return e.Attempt != o.Attempts
}

// afterTheEnd is rule 2 and what section 2 adds to it.
func (o *Oracle) afterTheEnd(e domain.Event) (Verdict, bool) {
	if e.Type == "retry" {
		if o.State == "succeeded" {
			return refuse("not-retryable")
		}
		if e.TTLMs <= 0 || e.AtMs+e.TTLMs < 0 {
			return invalid()
		}
		o.State = "queued"
		if o.Attempts == 0 {
			// Attempt 1 was known outside and has been refused.
			o.Attempts = 1
		}
		o.MaxAttempts++
		o.ExpiresAtMs = e.AtMs + e.TTLMs
		o.Progress = 0
		o.Retries++
		o.Manual = false
		o.CancelAsked = false
		o.Confirmed = ""
		o.Suspected = false
		o.RetryAtMs = 0
		o.LateHash = ""
		o.EndKind, o.EndedBy = "", ""
		o.Decided = 0
		if o.ErrorCode == "OUTCOME_UNKNOWN" {
			// He had been told, and takes it upon himself.
			o.Decided = o.Attempts + 1
		}
		o.forgetUnknown()
		o.forgetQuestions()
		o.write("retry", e.AtMs)
		return changed("retried")
	}
	if e.Type == "succeed" && o.State == "succeeded" && e.ResultHash == o.ResultHash {
		return repeat("duplicate-result")
	}
	if e.Type == "expire" && o.State == "expired" {
		return repeat("duplicate-expire")
	}
	if e.Type == "succeed" && o.State == "expired" && o.LateHash != "" && e.ResultHash == o.LateHash {
		return repeat("duplicate-result")
	}
	if e.Type == "succeed" && o.State == "expired" && o.keepsLate(e) {
		o.LateHash = e.ResultHash
		o.write("succeed", e.AtMs)
		o.tell()
		return told("late-result")
	}
	return refuse("terminal-conflict")
}

// keepsLate tells whether a result that came too late is kept beside the task.
func (o *Oracle) keepsLate(e domain.Event) bool {
	if !o.RecordLate || o.LateHash != "" {
		return false
	}
	if e.AtMs >= o.ExpiresAtMs+o.GraceMs {
		return false
	}
	if blankText(e.ResultRef) || blankText(e.ResultHash) {
		return false
	}
	return !o.stale(e)
}

func blankText(s string) bool { return strings.TrimSpace(s) == "" }

// start is rule 4.
func (o *Oracle) start(e domain.Event) (Verdict, bool) {
	if o.State == "running" {
		return repeat("already-running")
	}
	if o.Attempts >= o.MaxAttempts {
		return refuse("not-startable")
	}
	o.begin(e)
	return changed("started")
}

func (o *Oracle) begin(e domain.Event) {
	o.State = "running"
	o.Attempts++
	o.Progress = 0
	o.RetryAtMs = 0
	o.Stage = e.Stage
	o.Suspected = false
	o.forgetQuestions()
	o.write("start", e.AtMs)
}

// work is rules 5 to 7, and the disorder of section 2.
func (o *Oracle) work(e domain.Event) (Verdict, bool) {
	begins := false
	if o.State != "running" {
		if o.Strict || o.Attempts > 0 {
			return refuse("not-running")
		}
		begins = true
	}
	// What is invalid changes nothing, so it is looked at before the start.
	whole := 0
	if e.Type == "progress" {
		if e.Progress == nil {
			return invalid()
		}
		whole = int(*e.Progress)
		if float64(whole) != *e.Progress || whole < 0 || whole > 100 {
			return invalid()
		}
	}
	if e.Type == "succeed" && (blankText(e.ResultRef) || blankText(e.ResultHash)) {
		return invalid()
	}
	if e.Type == "input-required" && (blankText(e.QuestionID) || blankText(e.Prompt)) {
		return invalid()
	}
	if begins {
		o.begin(domain.Event{AtMs: e.AtMs})
	}
	if e.Type == "input-required" {
		return o.ask(e)
	}
	if e.Type == "progress" {
		return o.progress(e, whole, begins)
	}
	if e.Type == "succeed" {
		o.heard()
		o.Progress = 100
		o.ResultRef = e.ResultRef
		o.ResultHash = e.ResultHash
		o.write("succeed", e.AtMs)
		o.end("succeeded", e, "succeeded")
		return told("succeeded")
	}
	return o.fail(e)
}

func (o *Oracle) progress(e domain.Event, whole int, begins bool) (Verdict, bool) {
	if whole < o.Progress {
		return refuse("stale-progress")
	}
	if whole == o.Progress && e.Stage != "" && e.Stage != o.Stage {
		o.Stage = e.Stage
		o.heard()
		o.write("progress", e.AtMs)
		return changed("stage")
	}
	if whole == o.Progress && begins {
		return changed("started")
	}
	if whole == o.Progress {
		return repeat("duplicate-progress")
	}
	o.Progress = whole
	if e.Stage != "" {
		o.Stage = e.Stage
	}
	o.heard()
	o.write("progress", e.AtMs)
	return changed("progress")
}

func (o *Oracle) fail(e domain.Event) (Verdict, bool) {
	again := e.Retryable != nil && *e.Retryable
	if e.Retryable == nil && e.Error != nil {
		again = e.Error.Retryable
	}
	o.heard()
	o.ErrorCode, o.ErrorText = "", "failed without saying why"
	if e.Error != nil {
		o.ErrorCode, o.ErrorText = e.Error.Code, e.Error.Message
	}
	o.Submission++
	o.write("fail", e.AtMs)
	if again && o.CancelAsked {
		o.Confirmed = "yes"
		o.end("cancelled", e, "cancelled")
		return told("cancelled")
	}
	if again && o.Attempts < o.MaxAttempts {
		o.again(e)
		return changed("requeued")
	}
	o.end("failed", e, endOfCode(o.ErrorCode))
	return told("failed")
}

func (o *Oracle) ask(e domain.Event) (Verdict, bool) {
	for _, q := range o.Asked {
		if q == e.QuestionID {
			return repeat("duplicate-question")
		}
	}
	if len(o.Asked) >= 32 {
		return invalid()
	}
	o.Asked = append(o.Asked, e.QuestionID)
	o.heard()
	o.write("input-required", e.AtMs)
	return changed("input-required")
}

// forgetQuestions is for an attempt that is over: its questions went with it.
func (o *Oracle) forgetQuestions() {
	o.Asked = nil
	o.Answers = map[string]string{}
}

// sign is what else may come from outside: heartbeat and cancelled.
func (o *Oracle) sign(e domain.Event) (Verdict, bool) {
	if o.State != "running" {
		return refuse("not-running")
	}
	if e.Type == "heartbeat" {
		if e.Stage != "" && e.Stage != o.Stage {
			o.Stage = e.Stage
			if !o.undoing() {
				o.heard()
			}
			o.write("heartbeat", e.AtMs)
			return changed("stage")
		}
		if o.Suspected || o.Manual && !o.undoing() {
			o.heard()
			o.write("heartbeat", e.AtMs)
			return changed("lease-renewed")
		}
		return Verdict{Reason: "heartbeat"}, true
	}
	// The work outside has stopped for good, so its key is used up.
	o.heard()
	o.Submission++
	o.Confirmed = "yes"
	o.write("cancelled", e.AtMs)
	o.end("cancelled", e, "cancelled")
	return told("cancelled")
}

// within is what Wakepoint says to itself.
func (o *Oracle) within(e domain.Event) (Verdict, bool) {
	if e.Type == "cancel-requested" {
		return o.cancel(e)
	}
	if e.Type == "attach" {
		return o.attach(e)
	}
	if e.Type == "detach" {
		return o.detach(e)
	}
	if e.Type == "resolve" {
		return o.resolve(e)
	}
	if e.Type == "compensated" {
		return o.compensated(e)
	}
	if e.Type == "retry" {
		return refuse("not-ended")
	}
	if e.Type == "cancel-timeout" {
		if o.State != "running" || !o.CancelAsked {
			return refuse("not-cancelling")
		}
		o.Confirmed = "no"
		o.write("cancel-timeout", e.AtMs)
		o.end("cancelled", e, "cancelled")
		return told("cancel-unconfirmed")
	}
	if e.Type == "answer" {
		return o.answer(e)
	}
	if e.Type == "suspect" || e.Type == "lease-renewed" || e.Type == "requeue" {
		return o.lease(e)
	}
	return invalid()
}

func (o *Oracle) answer(e domain.Event) (Verdict, bool) {
	if o.State != "running" {
		return refuse("not-running")
	}
	if len(e.Answer) == 0 {
		return invalid()
	}
	known := false
	for _, q := range o.Asked {
		if q == e.QuestionID {
			known = true
		}
	}
	if !known {
		return refuse("unknown-question")
	}
	before, answered := o.Answers[e.QuestionID]
	if answered && sameJSON(before, string(e.Answer)) {
		return repeat("duplicate-answer")
	}
	if answered {
		return refuse("answer-conflict")
	}
	o.Answers[e.QuestionID] = string(e.Answer)
	o.write("answer", e.AtMs)
	return changed("answered")
}

// sameJSON tells whether two texts are the same value; spacing, the order of
// members and the way of escaping don't count.
func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return a == b
	}
	return reflect.DeepEqual(x, y)
}

func (o *Oracle) lease(e domain.Event) (Verdict, bool) {
	if o.State != "running" {
		return refuse("not-running")
	}
	if e.Type == "suspect" {
		if o.Suspected {
			return repeat("already-suspected")
		}
		if o.Manual {
			return repeat("already-manual")
		}
		o.Suspected = true
		o.write("suspect", e.AtMs)
		return changed("suspected-lost")
	}
	if e.Type == "lease-renewed" {
		if !o.Suspected && (!o.Manual || o.undoing()) {
			return refuse("not-suspected")
		}
		o.heard()
		o.write("lease-renewed", e.AtMs)
		return changed("lease-renewed")
	}
	return o.lost(e)
}

// lost is a requeue: the worker is gone.
func (o *Oracle) lost(e domain.Event) (Verdict, bool) {
	if o.Manual && (o.undoing() || !o.CancelAsked) {
		return repeat("already-manual")
	}
	o.Suspected = false
	o.ErrorCode, o.ErrorText = "WORKER_LOST", "the worker fell silent and the work could not be found"
	if e.Error != nil {
		o.ErrorText = e.Error.Message
	}
	o.write("requeue", e.AtMs)
	if o.CancelAsked {
		o.Confirmed = "no"
		if e.Stopped {
			o.Confirmed = "yes"
		}
		o.end("cancelled", e, "cancelled")
		return told("cancelled")
	}
	if o.Unsafe {
		o.ErrorCode = "OUTCOME_UNKNOWN"
		if o.ToPerson {
			return o.unknown(e)
		}
		o.end("failed", e, "outcome-unknown")
		return told("worker-lost")
	}
	if o.Attempts < o.MaxAttempts {
		o.again(e)
		return changed("requeued")
	}
	o.end("failed", e, "worker-lost")
	return told("worker-lost")
}
