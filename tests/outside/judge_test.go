package outside_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/tests/outside/service"
)

// judge holds what became of the tasks against what the service wrote down.
type judge struct {
	// say takes what is wrong.
	say   func(format string, args ...any)
	asked map[string]bool
	log   []service.Entry
	ends  map[string]domain.Task
	read  func(ref, hash string) ([]byte, error)
}

// evidence is what the log says of one task, in its order.
type evidence struct {
	jobs []*jobRecord
	// refused are the keys of POSTs that surely started nothing, with the place in the log.
	refused map[string]int
}

type jobRecord struct {
	id, key, state string
	mode           service.Mode
	startedSeq     int
	endedSeq       int
}

// definite: the job is over in a way that lets the key change and the work be done again.
func (j *jobRecord) definite() bool {
	return j.state == service.StateFailed || j.state == service.StateCancelled
}

func (j *judge) evidence() map[string]*evidence {
	of := map[string]*evidence{}
	jobs := map[string]*jobRecord{}
	for _, e := range j.log {
		ev := of[e.Task]
		if ev == nil {
			ev = &evidence{refused: map[string]int{}}
			of[e.Task] = ev
		}
		switch e.What {
		case service.LogStarted:
			rec := &jobRecord{id: e.Job, key: e.Key, mode: e.Mode, startedSeq: e.Seq}
			jobs[e.Job] = rec
			ev.jobs = append(ev.jobs, rec)
		case service.LogEnded:
			jobs[e.Job].state, jobs[e.Job].endedSeq = e.State, e.Seq
		case service.LogRefused:
			ev.refused[e.Key] = e.Seq
		}
	}
	return of
}

// all judges every task.
func (j *judge) all() {
	of := j.evidence()
	for _, id := range slices.Sorted(maps.Keys(j.ends)) {
		task, ev := j.ends[id], of[id]
		if ev == nil {
			ev = &evidence{refused: map[string]int{}}
		}
		var wrong []string
		wrong = append(wrong, oncePerKey(task, ev)...)
		wrong = append(wrong, neverASecond(task, ev)...)
		wrong = append(wrong, j.agrees(task, ev)...)
		for _, w := range wrong {
			j.say("task %s of tool %s: %s\n  the task: %s\n  the service: %s", id, task.Tool, w, brief(task), ev)
		}
	}
	for id := range of {
		if _, known := j.ends[id]; !known {
			if id != "" { // a find names no task
				j.say("the service did something for a task %q that nobody submitted", id)
			}
		}
	}
}

func brief(t domain.Task) string {
	data, err := json.Marshal(struct {
		State   domain.State
		Error   *domain.TaskError
		Manual  *domain.Manual
		History []domain.Entry
	}{t.State, t.Error, t.Manual, t.History})
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (e *evidence) String() string {
	var parts []string
	for _, r := range e.jobs {
		parts = append(parts, fmt.Sprintf("%s for %s started at %d, ended %q at %d", r.id, r.key, r.startedSeq, r.state, r.endedSeq))
	}
	for key, seq := range e.refused {
		parts = append(parts, fmt.Sprintf("%s refused at %d", key, seq))
	}
	return strings.Join(parts, "; ")
}

// oncePerKey: one definite generation has one job, and a next generation comes only after a definite
// end of the one before.
func oncePerKey(task domain.Task, ev *evidence) (wrong []string) {
	of := map[string][]*jobRecord{}
	for _, r := range ev.jobs {
		of[r.key] = append(of[r.key], r)
	}
	for key, jobs := range of {
		// A key that knows nothing of keys is judged by neverASecond.
		if jobs[0].mode == service.Safe && len(jobs) != 1 {
			wrong = append(wrong, fmt.Sprintf("%d jobs for the key %s, want one", len(jobs), key))
		}
		number := key[strings.LastIndexByte(key, '/')+1:]
		if number == "1" {
			continue
		}
		before := keyBefore(key)
		_, refused := ev.refused[before]
		definite := slices.ContainsFunc(of[before], (*jobRecord).definite)
		if !refused && !definite {
			wrong = append(wrong, fmt.Sprintf("the key %s was used, and %s has not definitely failed", key, before))
		}
	}
	return wrong
}

// keyBefore is the key of the generation before.
func keyBefore(key string) string {
	i := strings.LastIndexByte(key, '/')
	var n int
	if _, err := fmt.Sscan(key[i+1:], &n); err != nil {
		return ""
	}
	return fmt.Sprintf("%s/%d", key[:i], n-1)
}

// neverASecond: where doing the work twice does harm, a job is started only when the one before has
// definitely ended without success.
func neverASecond(task domain.Task, ev *evidence) (wrong []string) {
	for i := 1; i < len(ev.jobs); i++ {
		before, next := ev.jobs[i-1], ev.jobs[i]
		if next.mode != service.Unsafe {
			continue
		}
		if !before.definite() || before.endedSeq > next.startedSeq {
			wrong = append(wrong, fmt.Sprintf("%s was started beside or after %s, which had not definitely failed", next.id, before.id))
		}
	}
	return wrong
}

// agrees: how the task ended is what the service did.
func (j *judge) agrees(task domain.Task, ev *evidence) []string {
	last := &jobRecord{}
	if n := len(ev.jobs); n > 0 {
		last = ev.jobs[n-1]
	}
	unknown := task.Error != nil && task.Error.Code == domain.CodeOutcomeUnknown
	unsafe := task.Policy.Effects == domain.EffectsUnsafe
	say := func(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }
	switch {
	case task.Manual != nil && !task.State.Terminal():
		if !unsafe || !unknown {
			return say("it waits for a person without need")
		}
	case task.State == domain.StateSucceeded:
		return j.rightResult(task, ev)
	case task.State == domain.StateFailed && unknown:
		if !unsafe {
			return say("it failed with an unknown outcome, and could have been repeated")
		}
	case task.State == domain.StateFailed:
		if _, refused := ev.refused[lastKey(ev)]; last.state != service.StateFailed && !refused {
			return say("it failed, and the last job ended %q", last.state)
		}
	case task.State == domain.StateCancelled:
		// Without a confirmation it is only said that nobody waits any more.
		sure := task.Confirmed != nil && *task.Confirmed
		if !j.asked[task.ID] {
			return say("it was cancelled, and nobody asked for that")
		}
		if last.state == service.StateSucceeded && sure {
			return say("it is called cancelled for sure, and the job succeeded")
		}
	default:
		return say("it ended as %s", task.State)
	}
	return nil
}

// lastKey is the newest key that the service has heard of.
func lastKey(ev *evidence) string {
	key, at := "", -1
	for _, r := range ev.jobs {
		if r.startedSeq > at {
			key, at = r.key, r.startedSeq
		}
	}
	for k, seq := range ev.refused {
		if seq > at {
			key, at = k, seq
		}
	}
	return key
}

// rightResult: the result is that of a job of this task which succeeded.
func (j *judge) rightResult(task domain.Task, ev *evidence) []string {
	data, err := j.read(task.ResultRef, task.ResultHash)
	if err != nil {
		return []string{fmt.Sprintf("its result: %v", err)}
	}
	var result struct{ Task, Done string }
	if err := json.Unmarshal(data, &result); err != nil {
		return []string{fmt.Sprintf("its result is %s", data)}
	}
	for _, r := range ev.jobs {
		if r.id == result.Done && r.state == service.StateSucceeded && result.Task == task.ID {
			return nil
		}
	}
	return []string{fmt.Sprintf("its result %s is of no job of it that succeeded", data)}
}

// faults counts the misbehaviour that happened.
func (j *judge) faults() map[service.Fault]int {
	n := map[service.Fault]int{}
	for _, e := range j.log {
		if e.What == service.LogDisturbed {
			n[e.Fault]++
		}
	}
	return n
}

// table tells how many tasks were disturbed in which way, and how they ended, by tool.
func (j *judge) table() string {
	disturbed := map[service.Fault]map[string]map[string]bool{}
	for _, e := range j.log {
		if e.What != service.LogDisturbed {
			continue
		}
		tool := j.ends[e.Task].Tool
		if disturbed[e.Fault] == nil {
			disturbed[e.Fault] = map[string]map[string]bool{}
		}
		if disturbed[e.Fault][tool] == nil {
			disturbed[e.Fault][tool] = map[string]bool{}
		}
		disturbed[e.Fault][tool][e.Task] = true
	}
	ends := map[string]map[string]int{}
	for _, task := range j.ends {
		end := string(task.State)
		switch {
		case task.State.Terminal() && task.Error != nil && task.Error.Code == domain.CodeOutcomeUnknown && task.State == domain.StateFailed:
			end = "failed, outcome unknown"
		case task.Manual != nil && !task.State.Terminal():
			end = "waits for a person"
		case task.State == domain.StateCancelled && (task.Confirmed == nil || !*task.Confirmed):
			end = "cancelled, without a confirmation"
		}
		if ends[end] == nil {
			ends[end] = map[string]int{}
		}
		ends[end][task.Tool]++
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name string, count func(tool string) int) {
		fmt.Fprintf(w, "%s", name)
		for _, k := range tools {
			fmt.Fprintf(w, "\t%d", count(k.name))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "tasks")
	for _, k := range tools {
		fmt.Fprintf(w, "\t%s", k.name)
	}
	fmt.Fprintln(w)
	for _, f := range service.Faults() {
		row("disturbed by "+string(f), func(tool string) int { return len(disturbed[f][tool]) })
	}
	for _, end := range slices.Sorted(maps.Keys(ends)) {
		row("ended: "+end, func(tool string) int { return ends[end][tool] })
	}
	_ = w.Flush() // into memory
	return b.String()
}
