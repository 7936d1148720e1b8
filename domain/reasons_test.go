package domain_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

// reasonNote says what a reason means and what a sender does about it.
type reasonNote struct {
	reason domain.Reason
	means  string
	sender string
}

// What a sender does, for reasons that have it in common.
const (
	itIsDone   = "nothing: it has been done"
	itWasDone  = "nothing: it had been done before"
	giveUp     = "give up: a repeat gets the same answer"
	notASender = "(no answer to a sender)"
)

var reasonNotes = []reasonNote{
	{domain.ReasonStarted, "An attempt has begun.", itIsDone},
	{domain.ReasonAlreadyRunning, "The attempt had begun before.", itWasDone},
	{domain.ReasonNotStartable, "The task has used all its attempts.", giveUp},
	{domain.ReasonNotRunning, "The task is queued: not started yet, or between two attempts. The event needs one that runs.", "send `start` first, then this as a new callback"},
	{domain.ReasonProgress, "The progress is higher than before.", itIsDone},
	{domain.ReasonStaleProgress, "The progress is lower than what is known; reports have overtaken each other.", "nothing: send the next report"},
	{domain.ReasonDuplicateProgress, "The progress is what is known already.", itWasDone},
	{domain.ReasonHeartbeat, "The worker was heard of. That is kept, but it is no change.", itIsDone},
	{domain.ReasonStage, "The work has entered a new stage.", itIsDone},
	{domain.ReasonSucceeded, "The task has its result. It is an end.", itIsDone},
	{domain.ReasonRequeued, "The attempt failed, or its worker was lost, and another one will follow.", "stop working on this attempt; the next one has a number of its own"},
	{domain.ReasonFailed, "The task failed, for good or in its last attempt. It is an end.", itIsDone},
	{domain.ReasonExpired, "The deadline had come, by the timer or because this event is not before it. It is an end.", "give up: the work came too late; see `late`"},
	{domain.ReasonTerminalConflict, "The task has ended otherwise.", giveUp + ", also after a manual retry"},
	{domain.ReasonDuplicateCallback, "This callback id has been answered before. With `conflict` it said something else then.", "nothing; after a `conflict` mend the ids, they must be unique within the task"},
	{domain.ReasonDuplicateResult, "The task has this very result, or keeps it as a late one.", itWasDone},
	{domain.ReasonDuplicateExpire, "The deadline had come before.", notASender},
	{domain.ReasonStaleAttempt, "The event names an attempt that isn't the current one, or none after a manual retry.", "give up this attempt; somebody else works on the task"},
	{domain.ReasonInputRequired, "The task asks a question and waits for its answer.", itIsDone},
	{domain.ReasonDuplicateQuestion, "The question has been asked in this attempt.", itWasDone},
	{domain.ReasonAnswered, "The question has its answer.", itIsDone},
	{domain.ReasonDuplicateAnswer, "The question had the same answer.", itWasDone},
	{domain.ReasonAnswerConflict, "The question has another answer. The first one counts.", giveUp},
	{domain.ReasonUnknownQuestion, "Nobody asked that question in this attempt.", giveUp},
	{domain.ReasonCancelRequested, "The outside is asked to stop. The task goes on until it says so, or its grace is over.", "wait for the end of the task"},
	{domain.ReasonDuplicateCancel, "A cancel had been asked for.", "wait for the end of the task"},
	{domain.ReasonCancelled, "The task was given up: it was queued, or the outside has stopped. It is an end.", itIsDone},
	{domain.ReasonCancelUnconfirmed, "The task was given up, and nobody outside confirmed that the work has stopped. It is an end.", notASender},
	{domain.ReasonNotCancelling, "No cancel had been asked for.", notASender},
	{domain.ReasonSuspectedLost, "The worker has been silent for its lease; the outside is asked.", notASender},
	{domain.ReasonAlreadySuspected, "The worker was suspected lost before.", notASender},
	{domain.ReasonLeaseRenewed, "The worker that was suspected lost is still there.", itIsDone},
	{domain.ReasonNotSuspected, "The worker had not been suspected.", notASender},
	{domain.ReasonWorkerLost, "The worker was lost in the last attempt, or doing its work twice would do harm. It is an end.", notASender},
	{domain.ReasonRetried, "An operator gave an ended task one more attempt and a new deadline.", itIsDone},
	{domain.ReasonNotRetryable, "The task has succeeded.", giveUp},
	{domain.ReasonNotEnded, "The task has not ended, or somebody else has just retried it.", "look at the task first"},
	{domain.ReasonLateResult, "The result came after the deadline and is kept beside the task, whose state stays.", itIsDone},
	{domain.ReasonManual, "It is not known whether the work was done, and doing it twice does harm. The task stays open for a person, or until it is undone.", notASender},
	{domain.ReasonAlreadyManual, "A person looks for the work already, or it is being undone.", notASender},
	{domain.ReasonNotManual, "Nobody asked a person about this task, or nothing is being undone.", "look at the task first"},
	{domain.ReasonResolved, "A person said what became of the work. Unless it is to be done again, it is an end.", itIsDone},
	{domain.ReasonCompensated, "What the attempt may have done was undone. Another one follows if there is one left; else it is an end.", notASender},
	{domain.ReasonNotCompensated, "It could not be undone; a person has to find out.", notASender},
	{domain.ReasonBeingUndone, "What the attempt may have done is being undone, so its word comes too late.", "give up: whoever asked for the work no longer counts on it"},
	{domain.ReasonAttached, "One more waits for the end, or is told of it.", itIsDone},
	{domain.ReasonDuplicateTarget, "That target was attached before.", itWasDone},
	{domain.ReasonDuplicateWaiter, "That waiter waits already.", itWasDone},
	{domain.ReasonDetached, "One waits no longer. The work goes on for the others, or for nobody.", itIsDone},
	{domain.ReasonDuplicateDetach, "That waiter had left before.", itWasDone},
	{domain.ReasonUnknownWaiter, "No waiter of this task has that id.", giveUp},
	{domain.ReasonDelivered, "The result was handed over, under this key for the first time.", itIsDone},
	{domain.ReasonDuplicateDelivery, "The result was handed over under this key before; the receipt is the first one.", itWasDone},
	{domain.ReasonKeyReused, "This key delivered the result of another task.", "use another key"},
	{domain.ReasonNotSucceeded, "The task has no result to deliver.", "try again, under the same key, when the task has succeeded"},
}

func reasonsPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(printed + `# Reasons

Every answer of a task carries one reason. The set is closed; new ones may be added in a later version. The kinds are those of
the [rules](states.md): only *changes* adds a version. Sending the same callback again gets a sender no other answer, except where
the table says so. An ` + "`invalid-request`" + ` is none of these: it is never remembered, so mend it and send it again.

| reason | kind | what it means | what the sender does |
| --- | --- | --- | --- |
`)
	for _, n := range reasonNotes {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", n.reason, strings.Join(kindsOf(n.reason), ", "), n.means, n.sender)
	}
	return b.String()
}

// kindsOf gives what the rules with a reason do; what has no rule is answered
// outside of the machine.
func kindsOf(reason domain.Reason) []string {
	var kinds []string
	for _, r := range domain.Rules() {
		if r.Reason == reason && !slices.Contains(kinds, string(r.Kind)) {
			kinds = append(kinds, string(r.Kind))
		}
	}
	if kinds != nil {
		return kinds
	}
	switch reason {
	case domain.ReasonDuplicateCallback:
		return []string{"repeats"}
	case domain.ReasonDuplicateTarget:
		return []string{"(attach)"}
	default:
		return []string{"(deliver)"}
	}
}

// TestReasonsAreComplete reads the constants from the source, so that a new
// reason cannot come without a word about it.
func TestReasonsAreComplete(t *testing.T) {
	t.Parallel()
	declared := constantsOf(t, "Reason")
	if len(declared) < 40 {
		t.Fatalf("only %d reasons found in the source", len(declared))
	}
	var noted []string
	for _, n := range reasonNotes {
		noted = append(noted, string(n.reason))
		if !strings.HasSuffix(n.means, ".") || n.sender == "" {
			t.Errorf("%s: no sentence or nothing for the sender", n.reason)
		}
	}
	slices.Sort(declared)
	slices.Sort(noted)
	if !slices.Equal(declared, noted) {
		t.Errorf("declared %v\nnoted    %v", declared, noted)
	}
	for _, r := range domain.Rules() {
		if r.Reason != "" && !slices.Contains(declared, string(r.Reason)) {
			t.Errorf("a rule has a reason that is no constant: %v", r)
		}
	}
}

// TestListsAreComplete does the same for states and event types.
func TestListsAreComplete(t *testing.T) {
	t.Parallel()
	sorted := func(list []string) []string { slices.Sort(list); return list }
	var states, types []string
	for _, s := range domain.States() {
		states = append(states, string(s))
	}
	for _, e := range domain.EventTypes() {
		types = append(types, string(e))
	}
	if declared := sorted(constantsOf(t, "State")); !slices.Equal(declared, sorted(states)) {
		t.Errorf("states: declared %v, listed %v", declared, states)
	}
	if declared := sorted(constantsOf(t, "EventType")); !slices.Equal(declared, sorted(types)) {
		t.Errorf("event types: declared %v, listed %v", declared, types)
	}
}

// constantsOf gives the values of all constants of a string type.
func constantsOf(t *testing.T, typeName string) []string {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.CONST {
				values = append(values, stringsIn(t, d, typeName)...)
			}
		}
	}
	return values
}

func stringsIn(t *testing.T, d *ast.GenDecl, typeName string) []string {
	t.Helper()
	var values []string
	for _, s := range d.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok {
			continue
		}
		if id, ok := v.Type.(*ast.Ident); !ok || id.Name != typeName {
			continue
		}
		for _, x := range v.Values {
			lit, ok := x.(*ast.BasicLit)
			if !ok {
				t.Fatalf("a constant of type %s is no literal", typeName)
			}
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
	}
	return values
}
