package runtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wakepoint/wakepoint/domain/run"
)

// Verdict is what the oracle answers to one event.
type Verdict struct {
	Reason    string
	Changed   bool
	Duplicate bool
	State     string
	Version   int64
	Step      int
}

// job is a call as the oracle knows it. It is never thrown away.
type job struct {
	step     int
	id, tool string
	input    string
	needs    []string
	aside    bool // a background call
	asked    int64
	patience int64

	// where is "blocked", "ready", "approval", "asking", "open" or the state of a result.
	where    string
	starting bool
	asks     bool
	task     string
	until    int64
	giveUp   string // what was said when it was given up
	givenUp  bool
	told     bool
	decision string
	edit     string
	edited   bool
	answer   string
	code     string
	taken    int
	// gone says that nobody has to do with it any more.
	gone bool
}

func (j *job) key() string { return fmt.Sprintf("%d/%s", j.step, j.id) }

func (j *job) ended() bool {
	return j.where == "succeeded" || j.where == "failed" || j.where == "expired" || j.where == "cancelled" || j.where == "skipped" || j.where == "denied"
}

func (j *job) finish(where, code string) {
	j.where, j.code, j.starting, j.until = where, code, false, 0
}

// drop gives a call up: at once, unless something outside may have to stop first.
func (j *job) drop(why string) {
	if j.ended() || j.givenUp {
		return
	}
	j.givenUp, j.giveUp = true, why
	if j.where == "open" || j.starting {
		return
	}
	j.finish("cancelled", "CANCELLED")
}

// left is a task that the run waits for no longer.
type left struct {
	key, task string
	sent      bool
}

type saying struct{ id, text string }

type oldCommit struct {
	token, digest string
	said          Verdict
}

// Oracle is a second, deliberately dumb implementation of a run, written from the
// contract and sharing no code with the rules of package run: flags and long chains
// of ifs. It is slow, mutable and not for production; it is there to disagree. Make one
// with [NewOracle]. It knows nothing of what is forgotten after a while: a test that
// reaches those limits has to be told by hand.
type Oracle struct {
	End        string
	Paused     bool
	Dying      string
	DyingUntil int64
	CancelSaid bool
	Deadline   int64
	Version    int64
	Runtime    string
	Saved      string // the hash of the checkpoint

	Steps      int
	Due        bool
	Cause      string
	Tries      int
	Held       bool
	Token      string
	Holder     string
	Lease      int64
	LeaseUntil int64
	NotBefore  int64
	Fails      int
	// Taken is when the step was handed out last.
	Taken int64
	// Spoke says that the last attempt failed by its own word and not by silence.
	Spoke     bool
	About     []string // the results that the step is about
	AboutSaid []string // and the inputs

	Jobs        []*job
	Left        []left
	Waiting     []saying
	Known       map[string]string
	Wake        string
	WakeOnInput bool
	Await       bool
	Unconfirmed []string
	Made        int
	Tokens      int64
	Cost        float64
	Outputs     int

	commits map[int]oldCommit
	create  run.Create
	wait    func(failures int, lot float64) int64
}

// NewOracle gives the oracle of a new run.
func NewOracle(c run.Create) *Oracle {
	o := &Oracle{Due: true, Cause: "start", Deadline: c.NowMs + c.TTLMs, Runtime: c.RuntimeVersion, Known: map[string]string{}, commits: map[int]oldCommit{}, create: c}
	o.wait = c.Policy.StepBackoff.Wait
	if c.Input != nil {
		o.hear(c.Input.InputID, c.Input.Source+"|"+squeezed(c.Input.Content))
	}
	return o
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func (o *Oracle) hear(id, text string) {
	o.Known[id] = text
	o.Waiting = append(o.Waiting, saying{id, text})
}

func (o *Oracle) find(k run.Key) *job {
	for _, j := range o.Jobs {
		if j.step == k.Step && j.id == k.ID && !j.gone {
			return j
		}
	}
	return nil
}

func (o *Oracle) unended() bool {
	for _, j := range o.Jobs {
		if !j.ended() {
			return true
		}
	}
	return false
}

// State is where the run stands.
func (o *Oracle) State() string {
	if o.End != "" {
		return o.End
	}
	if o.Dying != "" {
		return "WAITING_TOOL"
	}
	if o.Paused {
		return "PAUSED"
	}
	if o.Due {
		return "RUNNING"
	}
	for _, j := range o.Jobs {
		if j.where == "approval" || j.where == "asking" || j.where == "open" && j.asks {
			return "WAITING_INPUT"
		}
	}
	if !o.unended() && o.Await {
		return "WAITING_INPUT"
	}
	return "WAITING_TOOL"
}

func (o *Oracle) say(reason string, changed, again bool) (Verdict, bool) {
	v := Verdict{Reason: reason, Changed: changed, Duplicate: again, State: o.State(), Version: o.Version, Step: o.Steps}
	if o.Due {
		v.Step = o.Steps + 1
	}
	return v, true
}

func (o *Oracle) refuse(reason string) (Verdict, bool) { return o.say(reason, false, false) }
func (o *Oracle) repeat(reason string) (Verdict, bool) { return o.say(reason, false, true) }

// note is a change that adds no version.
func (o *Oracle) note(now int64, reason string) (Verdict, bool) {
	o.follow(now)
	return o.say(reason, false, false)
}

func (o *Oracle) change(now int64, reason string) (Verdict, bool) {
	o.follow(now)
	o.Version++
	return o.say(reason, true, false)
}

func invalid() (Verdict, bool) { return Verdict{}, false }

// follow lets follow what follows from a change.
func (o *Oracle) follow(now int64) {
	if o.End == "" {
		o.dependents()
	}
	for _, j := range o.Jobs {
		if j.taken > 0 && !j.starting && !o.needed(j) {
			j.gone = true
		}
	}
	if o.End != "" {
		return
	}
	if o.Dying != "" {
		if !o.unended() {
			o.die()
		}
		return
	}
	if o.Due || o.Paused {
		return
	}
	news, waits := false, false
	for _, j := range o.Jobs {
		if j.ended() && j.taken == 0 {
			news = true
		}
		if !j.ended() && !j.aside {
			waits = true
		}
	}
	if news && (!waits || o.Wake == "any") {
		o.begin("results")
		return
	}
	if len(o.Waiting) > 0 && (o.Await || o.WakeOnInput || !o.unended()) {
		o.begin("input")
	}
}

func (o *Oracle) begin(cause string) {
	o.Due, o.Cause = true, cause
	o.Tries, o.Held, o.Token, o.Holder, o.Lease, o.LeaseUntil, o.NotBefore, o.Fails = 0, false, "", "", 0, 0, 0, 0
	o.Spoke = false
	o.About, o.AboutSaid = nil, nil
}

// needed tells whether a call that has not begun needs the result of j.
func (o *Oracle) needed(j *job) bool {
	for _, d := range o.Jobs {
		if d.step == j.step && (d.where == "blocked" || d.where == "ready" || d.where == "approval") {
			for _, n := range d.needs {
				if n == j.id {
					return true
				}
			}
		}
	}
	return false
}

func (o *Oracle) dependents() {
	for range o.Jobs {
		for _, j := range o.Jobs {
			if j.where != "blocked" {
				continue
			}
			good, ended := true, true
			for _, n := range j.needs {
				for _, d := range o.Jobs {
					if d.step != j.step || d.id != n {
						continue
					}
					if !d.ended() {
						ended = false
					} else if d.where != "succeeded" {
						good = false
					}
				}
			}
			if !good && !o.create.Policy.RunDependents {
				j.finish("skipped", "DEPENDENCY_FAILED")
			} else if ended {
				j.where = "ready"
			}
		}
	}
}

// doom starts the way to an end.
func (o *Oracle) doom(now int64, to, why string) {
	o.Dying, o.DyingUntil = to, now+orElse(o.create.Policy.CancelGraceMs, 120000)
	o.Held, o.LeaseUntil = false, 0
	for _, j := range o.Jobs {
		j.drop(why)
	}
}

func (o *Oracle) die() {
	o.Unconfirmed = nil
	for _, j := range o.Jobs {
		if !j.ended() {
			o.Unconfirmed = append(o.Unconfirmed, j.key())
		}
	}
	o.End, o.Dying = o.Dying, ""
}

// Apply gives what one event comes to; false means that it is invalid.
func (o *Oracle) Apply(e run.Event) (Verdict, bool) {
	if e.AtMs < 0 {
		return invalid()
	}
	acts := e.Type == run.EventApprove || e.Type == run.EventAnswer || e.Type == run.EventPause || e.Type == run.EventUnpause || e.Type == run.EventCancel || e.Type == run.EventCancelCall || e.Type == run.EventRetry
	if acts && (len(e.By) > 256 || len(e.Reason) > 4096) {
		return invalid()
	}
	switch e.Type {
	case run.EventClaim:
		return o.claim(e)
	case run.EventHeartbeat, run.EventStepFailed:
		return o.attempt(e)
	case run.EventCommit:
		return o.commit(e)
	case run.EventStepLost:
		if !o.Held {
			return o.refuse("unchanged")
		}
		return o.fail(e.AtMs, true, true, 0)
	case run.EventCallStarted, run.EventApprovalAsked, run.EventCallEnded, run.EventNoted:
		return o.call(e)
	case run.EventApprove, run.EventAnswer, run.EventCancelCall:
		return o.person(e)
	case run.EventInput:
		return o.input(e)
	case run.EventRetry:
		return o.retry(e)
	case run.EventCancel, run.EventPause, run.EventUnpause, run.EventExpire, run.EventCancelTimeout:
		return o.end(e)
	case run.EventCallTimeout, run.EventWaitTimeout:
		return o.impatient(e)
	}
	return invalid()
}

func (o *Oracle) claim(e run.Event) (Verdict, bool) {
	if strings.TrimSpace(e.Token) == "" || e.LeaseMs < 0 {
		return invalid()
	}
	if o.End != "" {
		return o.refuse("run-closed")
	}
	own := o.Held && !e.Left && o.LeaseUntil > e.AtMs && e.Holder != "" && e.Holder == o.Holder
	if !o.Due || o.Paused || o.Dying != "" || !o.Held && o.NotBefore > e.AtMs || own && o.Fails > 0 && e.AtMs < o.Taken+o.wait(o.Fails, 0) {
		return o.refuse("no-step")
	}
	if e.RuntimeVersion != "" && o.Runtime != "" && e.RuntimeVersion != o.Runtime {
		return o.refuse("wrong-runtime")
	}
	if o.Held && o.LeaseUntil > e.AtMs && (e.Holder == "" || e.Holder != o.Holder) {
		return o.refuse("step-held")
	}
	if o.Held && !e.Left {
		if o.Fails+1 >= orElse(o.create.Policy.StepAttempts, 10) {
			return o.fail(e.AtMs, false, true, 0)
		}
		o.Fails++
	}
	if o.Tries == 0 {
		waits := false
		for _, j := range o.Jobs {
			waits = waits || !j.ended() && !j.aside
		}
		for _, j := range o.Jobs {
			if j.ended() && j.taken == 0 && (j.aside || !waits || o.Wake == "any") {
				o.About = append(o.About, j.key())
			}
		}
		for _, s := range o.Waiting {
			o.AboutSaid = append(o.AboutSaid, s.id)
		}
	}
	o.Tries++
	o.Held, o.Token, o.Holder, o.NotBefore = true, e.Token, e.Holder, 0
	o.Lease = orElse(e.LeaseMs, orElse(o.create.Policy.LeaseMs, 60000))
	o.LeaseUntil, o.Taken = e.AtMs+o.Lease, e.AtMs
	return o.change(e.AtMs, "claimed")
}

func (o *Oracle) mine(token string) bool {
	return o.Due && o.Tries > 0 && o.Token == token && token != ""
}

func (o *Oracle) attempt(e run.Event) (Verdict, bool) {
	if o.End != "" {
		return o.refuse("run-closed")
	}
	if !o.mine(e.Token) {
		return o.refuse("stale-token")
	}
	if o.Dying != "" {
		return o.refuse("run-ending")
	}
	if e.Type == run.EventHeartbeat {
		if !o.Held && o.Spoke {
			return o.refuse("stale-token")
		}
		o.Held, o.LeaseUntil = true, e.AtMs+o.Lease
		return o.note(e.AtMs, "lease-renewed")
	}
	if !o.Held {
		return o.repeat("step-retry")
	}
	return o.fail(e.AtMs, e.Error == nil || e.Error.Retryable, false, e.Jitter)
}

// fail ends an attempt of a step.
func (o *Oracle) fail(now int64, again, lost bool, lot float64) (Verdict, bool) {
	o.Held, o.LeaseUntil = false, 0
	o.Fails++
	o.Spoke = !lost
	if !again || o.Fails >= orElse(o.create.Policy.StepAttempts, 10) {
		o.End = "FAILED"
		return o.change(now, "step-given-up")
	}
	if lost {
		return o.change(now, "step-lost")
	}
	o.NotBefore = now + o.wait(o.Fails, lot)
	return o.change(now, "step-retry")
}

func (o *Oracle) leftAt(key string) int {
	return slices.IndexFunc(o.Left, func(l left) bool { return l.key == key })
}
