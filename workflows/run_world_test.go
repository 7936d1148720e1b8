package workflows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The world of the property test: what happens to the calls of one run. It knows the
// truth about every task, and never asks the run.

// The tools of that world.
const (
	toolBuild   = "build"
	toolApprove = "deploy" // waits for a person first
	toolUnknown = "nonsense"
)

// simIDs are the ids of calls, the same in every step; simEdited is what people make of
// the arguments.
var simIDs = []string{"a", "b", "c", "d", "e"}

const simEdited = `{"edited":true}`

// errNothingYet is a standing check that has found nothing.
var errNothingYet = temporal.NewApplicationErrorWithOptions("goes on", protocol.ErrTypeStillRunning, temporal.ApplicationErrorOptions{NextRetryDelay: 20 * time.Second})

// simTask is a task, and the truth about it.
type simTask struct {
	id   string
	keys []run.Key
	end  *domain.Task
	// lost says that nobody tells the run of its end; sub that a run does the work.
	lost, cancelled, sub bool
}

// simWorld is what the activities and the people of the property test see.
type simWorld struct {
	mu   sync.Mutex
	seed uint64
	// run is the id of the run.
	run   string
	tasks map[string]*simTask
	order []string
	// of is the task of a call; approved, denied and answered are what people decided.
	of       map[run.Key]string
	asked    []run.Key
	approved map[run.Key]string
	answered map[run.Key]string
	begun    map[run.Key]protocol.CallStart
	// started are the calls whose task the run was told.
	started map[run.Key]bool
	// hadEnded are the calls of its step that had ended well when a call was begun.
	hadEnded map[run.Key][]string
	failed   map[string]bool
	// patient are tasks of whose end the run must be told: the standing check does not
	// look at what is not waited for.
	patient map[string]bool
	// early tells the run of the end of a task while its start is under way.
	early func(*simTask)
	wrong []string
}

func newSimWorld(seed uint64) *simWorld {
	return &simWorld{
		seed: seed, tasks: map[string]*simTask{}, of: map[run.Key]string{}, approved: map[run.Key]string{}, answered: map[run.Key]string{},
		begun: map[run.Key]protocol.CallStart{}, started: map[run.Key]bool{}, hadEnded: map[run.Key][]string{}, failed: map[string]bool{}, patient: map[string]bool{},
	}
}

// lotFor gives lots that depend on what they are for, and not on what came before: the
// activities run beside one another.
func (w *simWorld) lotFor(what string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

func (w *simWorld) fault(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// errAnswerLost is a worker that died when the work had been begun: it is begun again a
// while later.
var errAnswerLost = temporal.NewApplicationErrorWithOptions("the worker has died", "DIED", temporal.ApplicationErrorOptions{NextRetryDelay: 20 * time.Second})

// begin starts the work of a call.
func (w *simWorld) begin(c protocol.CallStart) (protocol.CallBegun, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lot := w.lotFor(fmt.Sprint("begin", c.Key))
	if once := fmt.Sprint(c.Key, c.Approved); lot.IntN(12) == 0 && !w.failed[once] {
		w.failed[once] = true
		return protocol.CallBegun{}, errors.New("the engine is away")
	}
	if _, again := w.begun[c.Key]; !again {
		for _, id := range simIDs {
			if k := (run.Key{Step: c.Step, ID: id}); w.succeeded(k) {
				w.hadEnded[c.Key] = append(w.hadEnded[c.Key], id)
			}
		}
	}
	w.begun[c.Key] = c
	if w.approved[c.Key] == run.DecisionEdit && string(c.Input) != simEdited {
		w.fault("call %v is begun with %s, a person has edited it", c.Key, c.Input)
	}
	for _, n := range c.Needs {
		w.checkNeed(c, n)
	}
	switch {
	case c.Tool == toolUnknown:
		return protocol.CallBegun{End: &run.End{State: run.CallFailed, Error: &domain.TaskError{Code: run.CodeUnknownTool, Message: "no such tool"}}}, nil
	case c.Tool == run.ToolAsk, c.Tool == toolApprove && !c.Approved:
		if !slices.Contains(w.asked, c.Key) {
			w.asked = append(w.asked, c.Key)
		}
		return protocol.CallBegun{Asks: true, Started: &run.Started{Title: c.Tool}}, nil
	}
	// The ids are those of the real world: a run knows them before it is told.
	id := protocol.CallTaskID(w.run, c.Step, c.ID)
	if c.Tool == run.ToolRun {
		id = protocol.SubRunID(w.run, c.Step, c.ID)
	}
	if c.IdempotencyKey != "" {
		id = "task-" + c.IdempotencyKey
	}
	task, known := w.tasks[id]
	if !known {
		task = &simTask{id: id, sub: c.Tool == run.ToolRun}
		w.tasks[id] = task
		w.order = append(w.order, id)
	}
	if !slices.Contains(task.keys, c.Key) {
		task.keys = append(task.keys, c.Key)
	}
	w.of[c.Key] = id
	b := protocol.CallBegun{Started: &run.Started{TaskID: id, WaiterID: fmt.Sprint(c.Key)}}
	if task.sub {
		b.Started = &run.Started{SubRunID: id}
	}
	switch {
	case known && task.end != nil:
		end := task.ended()
		b.End = &end
	case !known && lot.IntN(8) == 0:
		w.end(task, lot)
		w.early(task)
	}
	if !known && lot.IntN(5) == 0 {
		return protocol.CallBegun{}, errAnswerLost
	}
	w.started[c.Key] = true
	return b, nil
}

// ended is the end of a task or a run as that of a call.
func (t *simTask) ended() run.End {
	if !t.sub {
		return run.EndOfTask(*t.end)
	}
	f := t.finished()
	return run.EndOfRun(f.State, f.Final, f.Error, nil)
}

// finished is what a run tells the one above at its end.
func (t *simTask) finished() protocol.RunFinished {
	f := protocol.RunFinished{Key: t.keys[0], SubRunID: t.id, Error: t.end.Error}
	switch t.end.State {
	case domain.StateSucceeded:
		f.State, f.Final = run.StateSucceeded, &run.Content{Ref: t.end.ResultRef, Hash: "h", Bytes: 3}
	case domain.StateExpired:
		f.State = run.StateExpired
	case domain.StateCancelled:
		f.State = run.StateCancelled
	case domain.StateFailed, domain.StateQueued, domain.StateRunning:
		f.State = run.StateFailed
	}
	return f
}

// news is the signal that tells of an end.
func (t *simTask) news() (string, any) {
	if t.sub {
		return protocol.SignalRunFinished, t.finished()
	}
	return protocol.SignalTaskFinished, protocol.TaskFinished{Task: *t.end}
}

// heed notes what is about to be committed.
func (w *simWorld) heed(step int, calls []run.ToolCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range calls {
		if c.WaitMs > 0 {
			w.patient[protocol.CallTaskID(w.run, step, c.ToolCallID)] = true
			w.patient["task-"+c.IdempotencyKey] = true
		}
	}
}

// checkNeed holds what a call is handed of the results it refers to against the truth.
func (w *simWorld) checkNeed(c protocol.CallStart, n protocol.CallResult) {
	key := run.Key{Step: c.Step, ID: n.ID}
	if t := w.tasks[w.of[key]]; t != nil && (t.end == nil || n.Ref != t.end.ResultRef || n.State != run.CallSucceeded) {
		w.fault("call %v is given %s of %v, the truth is %+v", c.Key, n.Ref, key, t.end)
	}
	if a, ok := w.answered[key]; ok && string(n.Answer) != a {
		w.fault("call %v is given the answer %s of %v, it was %s", c.Key, n.Answer, key, a)
	}
}

// succeeded tells whether the work of a call has ended well.
func (w *simWorld) succeeded(k run.Key) bool {
	if _, ok := w.answered[k]; ok {
		return true
	}
	t := w.tasks[w.of[k]]
	return t != nil && t.end != nil && t.end.State == domain.StateSucceeded
}

// end ends a task, one way or another.
func (w *simWorld) end(t *simTask, lot *rand.Rand) {
	e := domain.Task{ID: t.id, Tenant: "acme", RunID: "r", Version: 3, History: []domain.Entry{}}
	switch n := lot.IntN(10); {
	case t.cancelled && n < 7:
		e.State = domain.StateCancelled
	case n < 7:
		e.State, e.ResultRef, e.ResultHash = domain.StateSucceeded, "blob:acme/task/"+t.id, "h"
	case n < 9:
		e.State, e.Error = domain.StateFailed, &domain.TaskError{Code: "BOOM", Message: "no"}
	default:
		e.State = domain.StateExpired
	}
	t.end = &e
}

// open lists the tasks that have not ended.
func (w *simWorld) open() []*simTask {
	var out []*simTask
	for _, id := range w.order {
		if t := w.tasks[id]; t.end == nil {
			out = append(out, t)
		}
	}
	return out
}

func (w *simWorld) told(c protocol.CancelTask) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tasks[c.TaskID+c.SubRunID]; t != nil && !c.Detach {
		t.cancelled = true
	}
}

// watch is the standing check.
func (w *simWorld) watch(r protocol.WatchCallsRequest) (protocol.CallsFound, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found protocol.CallsFound
	for _, c := range r.Calls {
		t := w.tasks[c.TaskID+c.SubRunID]
		switch {
		case t == nil && w.started[c.Key]:
			w.fault("the standing check looks at %v under another name than its task has", c.Key)
		case t == nil:
			// The run had ended before its start came about, and was retried.
			found.Ends = append(found.Ends, protocol.CallFound{Key: c.Key, End: run.End{State: run.CallFailed, Error: &domain.TaskError{Code: run.CodeTaskGone, Message: "does not exist"}}})
		case t.end != nil && t.sub:
			found.Ends = append(found.Ends, protocol.CallFound{Key: c.Key, End: t.ended()})
		case t.end != nil:
			found.Ends = append(found.Ends, protocol.CallFound{Key: c.Key, Task: t.end})
		}
	}
	if len(found.Ends) == 0 {
		return found, errNothingYet
	}
	return found, nil
}

// truth holds a result against what the world knows, and gives "" or what is wrong.
func (w *simWorld) truth(k run.Key, call run.ToolCall, res run.Result, stopped bool) string {
	task := w.tasks[w.of[k]]
	ended := func(s domain.State) bool { return task != nil && task.end != nil && task.end.State == s }
	ok := false
	switch res.State {
	case run.CallSucceeded:
		if answer, asked := w.answered[k]; asked {
			ok = string(res.Result) == answer
		} else {
			ok = ended(domain.StateSucceeded) && (task.sub || res.TaskID == task.id) && res.ResultRef == task.end.ResultRef
		}
	case run.CallFailed:
		code := ""
		if res.Error != nil {
			code = res.Error.Code
		}
		ok = code == run.CodeWaitTimeout && call.WaitMs > 0 || code == run.CodeUnknownTool && call.Tool == toolUnknown || code == run.CodeTaskGone && task == nil || code == "BOOM" && ended(domain.StateFailed)
	case run.CallExpired:
		ok = ended(domain.StateExpired)
	case run.CallCancelled:
		ok = stopped || ended(domain.StateCancelled)
	case run.CallSkipped:
		ok = len(call.DependsOn) > 0
	case run.CallDenied:
		ok = w.approved[k] == run.DecisionDeny
	case run.CallBlocked, run.CallReady, run.CallApproval, run.CallAsking, run.CallOpen:
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("the result of %v is %s %s %v, the truth is another: %s", k, res.State, res.ResultRef, res.Error, w.about(k))
}

func (w *simWorld) about(k run.Key) string {
	var b strings.Builder
	fmt.Fprintf(&b, "task %q, decision %q, answer %q", w.of[k], w.approved[k], w.answered[k])
	if t := w.tasks[w.of[k]]; t != nil && t.end != nil {
		fmt.Fprintf(&b, ", ended %s %s", t.end.State, t.end.ResultRef)
	}
	return b.String()
}

// simAgent is the model of a runtime: it makes up what a step answers.
type simAgent struct {
	lot *rand.Rand
	// bodies counts answers, so that no two are the same; most is how many steps it
	// takes before it thinks of an end.
	bodies, most int
	// finishing says that it wants no more.
	finishing bool
}

// answer makes up what a step answers; every answer is another one.
func (a *simAgent) answer(req run.StepRequest) run.StepResponse {
	a.bodies++
	resp := run.StepResponse{Checkpoint: json.RawMessage(fmt.Sprintf(`{"body": %d }`, a.bodies))}
	waiting := 0
	for _, p := range req.Pending {
		if !p.Background {
			waiting++
		}
	}
	over := a.finishing || req.Step >= a.most
	if over && (waiting == 0 || a.lot.IntN(8) == 0) {
		resp.Final = json.RawMessage(fmt.Sprintf(`{"final": %d}`, a.bodies))
		for _, p := range req.Pending {
			if !p.Background {
				resp.CancelCalls = append(resp.CancelCalls, run.CancelCall{ToolCallID: p.ToolCallID, AskedAtStep: p.AskedAtStep})
			}
		}
		if a.lot.IntN(3) == 0 {
			resp.OnFinal = run.OnFinalDetach
		}
		return resp
	}
	if !over {
		resp.ToolCalls = a.calls()
	}
	for _, p := range req.Pending {
		if a.lot.IntN(12) == 0 {
			resp.CancelCalls = append(resp.CancelCalls, run.CancelCall{ToolCallID: p.ToolCallID, AskedAtStep: p.AskedAtStep, Message: "enough"})
		}
	}
	if a.lot.IntN(3) == 0 {
		resp.Wake = run.WakeAny
	}
	resp.WakeOnInput = a.lot.IntN(3) == 0
	if len(resp.ToolCalls)+len(req.Pending) == 0 && a.lot.IntN(10) > 0 || a.lot.IntN(6) == 0 {
		resp.Await = run.AwaitInput
	}
	if a.lot.IntN(5) == 0 {
		resp.Output = json.RawMessage(`"still at it"`)
	}
	return resp
}

// calls makes up a graph. Ids come again in every step.
func (a *simAgent) calls() []run.ToolCall {
	var out []run.ToolCall
	for _, id := range simIDs[:a.lot.IntN(len(simIDs)+1)] {
		c := run.ToolCall{ToolCallID: id, Tool: toolBuild, Input: json.RawMessage(`{}`)}
		switch n := a.lot.IntN(12); {
		case n == 0:
			c.Tool = toolUnknown
		case n <= 2:
			c.Tool = toolApprove
		case n == 4:
			c.Tool = run.ToolRun
		case n == 3:
			c.Tool, c.Input = run.ToolAsk, json.RawMessage(`{"prompt":"?"}`)
		}
		for _, d := range out {
			if a.lot.IntN(4) == 0 {
				c.DependsOn = append(c.DependsOn, d.ToolCallID)
			}
		}
		if len(c.DependsOn) > 0 && c.Tool != run.ToolAsk && a.lot.IntN(2) == 0 {
			c.Input = json.RawMessage(`{"of":{"$from":"` + c.DependsOn[0] + `"}}`)
		}
		if a.lot.IntN(4) == 0 {
			c.Background = true
		} else if a.lot.IntN(5) == 0 && c.Tool == toolBuild {
			c.WaitMs = int64(5_000 + a.lot.IntN(90_000))
		}
		if c.Tool == toolBuild && a.lot.IntN(6) == 0 {
			c.IdempotencyKey = []string{"k1", "k2", "k3"}[a.lot.IntN(3)]
		}
		out = append(out, c)
	}
	a.lot.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
