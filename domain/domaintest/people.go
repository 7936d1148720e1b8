package domaintest

import (
	"fmt"
	"strings"

	"github.com/wakepoint/wakepoint/domain"
)

// Guest is one who waits for the task, or did: what the oracle knows of a waiter.
type Guest struct {
	ID   string
	Run  string
	Call string
	Came int64
	Gone bool
	Left int64
	Why  string
}

func (o *Oracle) guest(id string) *Guest {
	for i := range o.Guests {
		if o.Guests[i].ID == id {
			return &o.Guests[i]
		}
	}
	return nil
}

// names lists those for whom yes holds.
func (o *Oracle) names(yes func(g Guest) bool) string {
	var list []string
	for _, g := range o.Guests {
		if yes(g) {
			list = append(list, fmt.Sprintf("%s(%s,%s)@%d-%d", g.ID, g.Run, g.Call, g.Came, g.Left))
		}
	}
	return strings.Join(list, " ")
}

func namesOf(waiters []domain.Waiter) string {
	var list []string
	for _, w := range waiters {
		list = append(list, fmt.Sprintf("%s(%s,%s)@%d-%d", w.ID, w.RunID, w.ToolCallID, w.AtMs, w.LeftAtMs))
	}
	return strings.Join(list, " ")
}

// here says that somebody waits; wants, that the end is news to him: also to one
// who went only because his own patience was over.
func here(g Guest) bool  { return !g.Gone }
func wants(g Guest) bool { return !g.Gone || g.Why == "wait-timeout" }

func (o *Oracle) attach(e domain.Event) (Verdict, bool) {
	if e.Waiter == nil || !plainID(e.Waiter.ID) {
		return invalid()
	}
	if e.Waiter.RunID != "" && !plainID(e.Waiter.RunID) {
		return invalid()
	}
	g := o.guest(e.Waiter.ID)
	if g != nil && !g.Gone {
		return repeat("duplicate-waiter")
	}
	if g == nil {
		o.Guests = append(o.Guests, Guest{ID: e.Waiter.ID})
		g = o.guest(e.Waiter.ID)
	}
	*g = Guest{ID: e.Waiter.ID, Run: e.Waiter.RunID, Call: e.Waiter.ToolCallID, Came: e.AtMs}
	o.write("attach", e.AtMs)
	return changed("attached")
}

func plainID(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return s != "" && len(s) <= 128 && strings.Trim(s, letters) == ""
}

func (o *Oracle) detach(e domain.Event) (Verdict, bool) {
	if blankText(e.WaiterID) || len(e.Reason) > 256 {
		return invalid()
	}
	g := o.guest(e.WaiterID)
	if g == nil {
		return refuse("unknown-waiter")
	}
	if g.Gone {
		return repeat("duplicate-detach")
	}
	o.goes(g, e.AtMs, e.Reason)
	o.write("detach", e.AtMs)
	return changed("detached")
}

func (o *Oracle) goes(g *Guest, atMs int64, why string) {
	g.Gone, g.Why, g.Left = true, why, atMs
	if atMs == 0 {
		g.Left = 1
	}
}

// cancel is a wish. That of one who is not the only one concerns him alone.
func (o *Oracle) cancel(e domain.Event) (Verdict, bool) {
	if e.WaiterID != "" {
		g := o.guest(e.WaiterID)
		if g == nil {
			return refuse("unknown-waiter")
		}
		if !wants(*g) {
			return repeat("duplicate-detach")
		}
		others := 0
		for _, x := range o.Guests {
			if x.ID != g.ID && wants(x) {
				others++
			}
		}
		if others > 0 {
			o.goes(g, e.AtMs, "cancelled")
			o.write("cancel-requested", e.AtMs)
			return changed("detached")
		}
	}
	if o.CancelAsked {
		return repeat("duplicate-cancel")
	}
	o.CancelAsked = true
	o.write("cancel-requested", e.AtMs)
	if o.State == "running" {
		return changed("cancel-requested")
	}
	o.RetryAtMs = 0
	if e.Begun {
		o.Confirmed = "no"
	}
	o.end("cancelled", e, "cancelled")
	return told("cancelled")
}

// heard is for every word from outside that changes something: whoever speaks is
// neither lost nor unknown.
func (o *Oracle) heard() {
	o.Suspected = false
	if o.Manual {
		o.Manual = false
		o.forgetUnknown()
	}
}

func (o *Oracle) forgetUnknown() {
	if o.ErrorCode == "OUTCOME_UNKNOWN" {
		o.ErrorCode, o.ErrorText = "", ""
	}
}

func (o *Oracle) undoing() bool { return o.Manual && o.Undo != "" && o.UndoFailed == "" }

// unknown sends the task to a person.
func (o *Oracle) unknown(e domain.Event) (Verdict, bool) {
	o.Manual = true
	o.Undo, o.UndoFailed = e.Compensation, ""
	return changed("manual")
}

// resolve is what a person found out.
func (o *Oracle) resolve(e domain.Event) (Verdict, bool) {
	if e.Action != "succeeded" && e.Action != "failed" && e.Action != "repeat" {
		return invalid()
	}
	if e.Action == "succeeded" && (blankText(e.ResultRef) || blankText(e.ResultHash)) {
		return invalid()
	}
	if !o.Manual {
		return refuse("not-manual")
	}
	o.write("resolve", e.AtMs)
	if e.Action == "succeeded" {
		o.Progress = 100
		o.ResultRef, o.ResultHash = e.ResultRef, e.ResultHash
		o.ErrorCode, o.ErrorText = "", ""
		o.end("succeeded", e, "succeeded")
		return told("resolved")
	}
	if e.Action == "failed" {
		// It is certain now that nothing came of this submission.
		o.Submission++
		o.ErrorCode, o.ErrorText = "NOT_DONE", "a person found out that the work was not done"
		if e.Error != nil {
			o.ErrorCode, o.ErrorText = e.Error.Code, e.Error.Message
		}
		o.end("failed", e, endOfCode(o.ErrorCode))
		return told("resolved")
	}
	if o.CancelAsked {
		o.Confirmed = "no"
		o.end("cancelled", e, "cancelled")
		return told("resolved")
	}
	o.Manual = false
	o.forgetUnknown()
	o.State = "queued"
	o.Progress = 0
	o.RetryAtMs = 0
	o.forgetQuestions()
	o.Decided = o.Attempts + 1
	if o.MaxAttempts < o.Attempts+1 {
		o.MaxAttempts = o.Attempts + 1
	}
	return changed("resolved")
}

// compensated is how the undoing ended.
func (o *Oracle) compensated(e domain.Event) (Verdict, bool) {
	if !o.undoing() {
		return refuse("not-manual")
	}
	if e.Compensation != "" && e.Compensation != o.Undo {
		return refuse("not-manual")
	}
	o.write("compensated", e.AtMs)
	if e.Error != nil {
		o.UndoFailed = "yes"
		return changed("not-compensated")
	}
	// As if nothing had been done, so the next try is a new submission.
	o.Submission++
	o.ErrorCode, o.ErrorText = "COMPENSATED", "what the attempt may have done was undone by task "+o.Undo
	if o.CancelAsked {
		o.Confirmed = "yes"
		o.end("cancelled", e, "cancelled")
		return told("compensated")
	}
	if o.Attempts < o.MaxAttempts {
		o.again(e)
		return changed("compensated")
	}
	o.end("failed", e, "failed")
	return told("compensated")
}

// again puts the task back, to be tried once more after a wait: its own, or what
// the other side asks for if that is longer.
func (o *Oracle) again(e domain.Event) {
	o.State = "queued"
	o.Manual = false
	o.Suspected = false
	o.Progress = 0
	o.forgetQuestions()
	wait := o.WaitMs(o.Attempts, e.Jitter)
	asked := e.RetryAfterMs
	if asked > 24*3_600_000 {
		asked = 24 * 3_600_000
	}
	asked += int64(float64(asked) * 0.1 * e.Jitter)
	if asked > wait {
		wait = asked
	}
	o.RetryAtMs = e.AtMs + wait
}

// end ends the task: in a state, by an event, in one of the kinds of ends.
func (o *Oracle) end(state string, e domain.Event, kind string) {
	o.State = state
	o.Suspected = false
	if state != "expired" || !o.undoing() {
		// What is being undone goes on beyond the deadline.
		o.Manual = false
	}
	o.EndKind = kind
	o.EndedBy = e.Source
	if e.By != "" {
		o.EndedBy = e.By
	}
	if outside(e.Type) && o.EndedBy == "" {
		o.EndedBy = "callback"
	}
	if e.Type == "cancel-timeout" && e.Source == "" {
		o.EndedBy = "timer"
	}
	if kind == "succeeded" && o.ExpectsCallback && o.EndedBy == "probe" {
		o.EndKind = "callback-lost"
	}
	o.tell()
}

func endOfCode(code string) string {
	if code == "WORKER_LOST" {
		return "worker-lost"
	}
	if code == "OUTCOME_UNKNOWN" {
		return "outcome-unknown"
	}
	if code == "TIMEOUT" || code == "DEADLINE_EXCEEDED" {
		return "timed-out"
	}
	return "failed"
}

// kindOfEnd also knows the one that is no end: all who waited lost patience.
func (o *Oracle) kindOfEnd() string {
	if o.ended() {
		return o.EndKind
	}
	impatient := false
	for _, g := range o.Guests {
		if !g.Gone {
			return ""
		}
		if g.Why == "wait-timeout" {
			impatient = true
		}
	}
	if impatient {
		return "wait-timeout"
	}
	return ""
}

func (o *Oracle) comparePeople(t domain.Task, check func(string, any, any)) {
	check("who waits", o.names(here), namesOf(t.Waiting()))
	check("who is told", o.names(wants), namesOf(t.Told()))
	check("decidedFor", o.Decided, t.DecidedFor)
	check("manual", o.Manual, t.Manual != nil)
	if o.Manual && t.Manual != nil {
		check("compensation", o.Undo, t.Manual.Compensation)
		check("compensation failed", o.UndoFailed != "", t.Manual.CompensationFailed != "")
	}
	kind, by := "", ""
	if end, ok := domain.EndOf(t); ok {
		kind = string(end.Kind)
		if o.ended() {
			by = end.By
		}
	}
	check("kind of the end", o.kindOfEnd(), kind)
	if o.ended() {
		check("ended by", o.EndedBy, by)
	} else {
		check("ended by", "", t.EndedBy)
	}
}
