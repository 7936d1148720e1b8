package domain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/domaintest"
)

// TestScenarios plays testdata/scenarios/*.txt. A scenario is a text: lines
// with # are for people, a line is a command, and the lines with > under it are
// what it answers; -update writes them anew. Every command also goes to the
// oracle, which must agree. The commands:
//
//	create WORDS                         a new task, see domaintest.Create
//	event WORDS                          something that Wakepoint says to itself
//	signal ID [now=MS] [delivery=D] WORDS  a callback by signal, see domaintest.Event
//	update ID [now=MS] [delivery=D] WORDS  the same by update: its validator may refuse
//	time MS                              what time alone brings
//	asked known|lost|silent MS           the outside was asked directly
//	task, history, phase MS, plan MS     what the task looks like
//	waiters, end                         who waits for it and is told, how it ended
//	resume CURSOR, deliver KEY MS, told  what others get
//	restart                              everything through JSON, as a continue-as-new does
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d scenarios (%v)", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			var s scenario
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, ">") {
					continue
				}
				b.WriteString(line)
				if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
					continue
				}
				out, err := s.do(strings.TrimSpace(line))
				if err != nil {
					t.Fatalf("%s: %v", strings.TrimSpace(line), err)
				}
				for answer := range strings.SplitSeq(out, "\n") {
					b.WriteString("> " + answer + "\n")
				}
			}
			golden(t, f, b.String())
		})
	}
}

type scenario struct {
	*domaintest.Pair
	now     int64
	receipt map[string]*domain.Receipt
}

func (s *scenario) do(line string) (string, error) {
	verb, rest, _ := strings.Cut(line, " ")
	args := strings.Fields(rest)
	switch verb {
	case "create":
		c, err := domaintest.Create(rest)
		if err != nil {
			return "", err
		}
		if s.Pair, err = domaintest.NewPair(c); err != nil {
			return refusal(err)
		}
		s.Careful, s.receipt = true, map[string]*domain.Receipt{}
		return summary(s.Task), nil
	case "event":
		e, err := domaintest.Event(rest)
		if err != nil {
			return "", err
		}
		return s.apply(e)
	case "signal", "update":
		return s.callback(verb, args[0], rest[len(args[0]):])
	case "time":
		s.now = ms(args[0])
		if e, ok := domain.Due(s.Task, s.now); ok {
			return s.apply(e)
		}
		return "nothing is due", nil
	case "asked":
		s.now = ms(args[1])
		if e, ok := domain.Asked(s.Task, args[0] == "known", args[0] == "lost", s.now); ok {
			return s.apply(e)
		}
		return "nothing follows", nil
	case "restart":
		return s.restart()
	default:
		return s.look(verb, args)
	}
}

func ms(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func refusal(err error) (string, error) {
	var refused *domain.RefusedError
	var invalid *domain.InvalidError
	switch {
	case errors.As(err, &refused):
		return "refused: " + words(refused.Outcome), nil
	case errors.As(err, &invalid):
		return "invalid: " + invalid.Field + " " + invalid.Rule, nil
	}
	return "", err
}

func (s *scenario) apply(e domain.Event) (string, error) {
	s.now = max(s.now, e.AtMs)
	tr, err := s.Apply(e)
	if err != nil {
		return refusal(err)
	}
	return answer(tr, domain.Outcome{Reason: tr.Reason, Duplicate: tr.Duplicate, Late: tr.Late}), nil
}

func (s *scenario) callback(door, id, rest string) (string, error) {
	c := domain.Callback{CallbackID: id, DeliveryID: "delivery of " + id}
	now := int64(-1)
	for {
		rest = strings.TrimSpace(rest)
		word, more, _ := strings.Cut(rest, " ")
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			break
		}
		switch key {
		case "now":
			now = ms(value)
		case "delivery":
			c.DeliveryID = value
		default:
			return "", fmt.Errorf("no option %s", key)
		}
		rest = more
	}
	var err error
	if c.Event, err = domaintest.Event(rest); err != nil {
		return "", err
	}
	s.now = max(s.now, c.Event.AtMs)
	if now >= 0 {
		s.now = now
	}
	give := s.Callback
	if door == "update" {
		give = s.Update
	}
	tr, out, err := give(c, s.now)
	if err != nil {
		return refusal(err)
	}
	return answer(tr, out), nil
}

func words(o domain.Outcome) string {
	text := string(o.Reason)
	for _, mark := range []struct {
		set  bool
		word string
	}{{o.Duplicate, "repeat"}, {o.Late, "late"}, {o.Conflict, "conflict"}} {
		if mark.set {
			text += ", " + mark.word
		}
	}
	return text
}

func answer(tr domain.Transition, o domain.Outcome) string {
	text := words(o)
	if !tr.Changed {
		return text
	}
	text += " -> " + summary(tr.Task)
	if tr.Task.RetryAtMs > 0 {
		text += fmt.Sprintf(", next attempt at %d", tr.Task.RetryAtMs)
	}
	if tr.Notify {
		text += ", told"
	}
	return text
}

func (s *scenario) restart() (string, error) {
	raw, err := json.Marshal(s.Task)
	if err != nil {
		return "", err
	}
	packed, err := json.Marshal(s.Ledger)
	if err != nil {
		return "", err
	}
	s.Task, s.Ledger = domain.Task{}, &domain.Ledger{}
	if err := errors.Join(json.Unmarshal(raw, &s.Task), json.Unmarshal(packed, s.Ledger)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %d callbacks remembered", summary(s.Task), s.Ledger.Len()), nil
}

// look answers the commands that change nothing.
func (s *scenario) look(verb string, args []string) (string, error) {
	switch verb {
	case "task":
		return describe(s.Task), nil
	case "history":
		return entries(s.Task.History), nil
	case "phase":
		v := domain.Describe(s.Task, ms(args[0]))
		text := string(v.Phase)
		var waiting []string
		for _, w := range v.Waiting {
			waiting = append(waiting, w.ID)
		}
		for _, part := range []struct{ name, value string }{{"waits for ", v.WaitsFor}, {"next step: ", v.NextStep}, {"waited for by ", strings.Join(waiting, ", ")}} {
			if part.value != "" {
				text += "; " + part.name + part.value
			}
		}
		if v.Stalled {
			text += "; stalled"
		}
		return text, nil
	case "end":
		end, ok := domain.EndOf(s.Task)
		if !ok {
			return "no end", nil
		}
		return strings.TrimSuffix(fmt.Sprintf("%s: %s; by %s", end.Kind, end.Text, end.By), "; by "), nil
	case "waiters":
		return "waiting: " + waiters(s.Task.Waiting()) + "\ntold: " + waiters(s.Task.Told()), nil
	case "plan":
		return planned(domain.Next(s.Task, ms(args[0]))), nil
	case "resume":
		p, err := domain.Resume(s.Task, ms(args[0]), 0)
		if err != nil {
			return refusal(err)
		}
		return strings.TrimRight(string(p.Mode)+"\n"+entries(p.Events), "\n"), nil
	case "deliver":
		d, err := domain.Deliver(s.Task.ID, &s.Task, s.receipt[args[0]], args[0], ms(args[1]))
		if err != nil {
			return refusal(err)
		}
		if d.Receipt == nil {
			return string(d.Reason), nil
		}
		s.receipt[args[0]] = d.Receipt
		return fmt.Sprintf("%s: %s at %d", d.Reason, d.Receipt.ResultRef, d.Receipt.DeliveredAtMs), nil
	case "told":
		var told []string
		for _, n := range s.Outbox.Drain() {
			told = append(told, fmt.Sprintf("%s at %d, v%d, %s", n.State, n.AtMs, n.Version, n.Reason))
		}
		return strings.Join(told, "\n"), nil
	}
	return "", fmt.Errorf("no command %q", verb)
}

func entries(h []domain.Entry) string {
	var lines []string
	for _, e := range h {
		lines = append(lines, fmt.Sprintf("v%d %s at %d", e.Version, e.Event.Type, e.Event.AtMs))
	}
	return strings.Join(lines, "\n")
}

func describe(t domain.Task) string {
	lines := []string{fmt.Sprintf("%s, deadline %d, submission %s", summary(t), t.ExpiresAtMs, t.SubmissionKey())}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if t.ResultRef != "" {
		add("result %s (%s)", t.ResultRef, t.ResultHash)
	}
	if t.Error != nil {
		add("error %s", t.Error.Error())
	}
	if t.Stage != "" {
		add("stage %s", t.Stage)
	}
	if t.Cancel != nil {
		add("cancel asked at %d by %s", t.Cancel.AtMs, t.Cancel.By)
	}
	if t.Confirmed != nil {
		add("cancel confirmed: %v", *t.Confirmed)
	}
	for _, q := range t.Questions {
		add("question %s: %s %s", q.QuestionID, q.Prompt, q.Answer)
	}
	if m := t.Manual; m != nil {
		add("a person looks for it since %d: %s", m.SinceMs, m.Why)
		if m.Compensation != "" {
			add("undone by %s %s", m.Compensation, m.CompensationFailed)
		}
	}
	if t.DecidedFor != 0 {
		add("attempt %d was decided on", t.DecidedFor)
	}
	if t.Late != nil {
		add("late result %s at %d", t.Late.ResultRef, t.Late.AtMs)
	}
	return strings.Join(lines, "\n")
}

// waiters names waiters, with the run that each stands for.
func waiters(list []domain.Waiter) string {
	var names []string
	for _, w := range list {
		name := w.ID
		if w.RunID != "" {
			name += " (" + strings.TrimSpace(w.RunID+" "+w.ToolCallID) + ")"
		}
		names = append(names, name)
	}
	return or(strings.Join(names, ", "), "nobody")
}

func planned(p domain.Plan) string {
	var parts []string
	for _, x := range []struct {
		set  bool
		word string
	}{
		{p.Submit, "submit"},
		{p.Probe, "watch the outside"},
		{p.Lease, fmt.Sprintf("keep a lease of %d", p.LeaseMs)},
		{p.AskOutside, "ask the outside"},
		{p.CancelOutside, "tell the outside to stop"},
		{p.Compensate, "undo what was done"},
		{p.Close, "close"},
		{p.WakeFor != domain.WakeNone, fmt.Sprintf("wake at %d for the %s", p.WakeAtMs, p.WakeFor)},
	} {
		if x.set {
			parts = append(parts, x.word)
		}
	}
	return strings.Join(parts, ", ")
}
