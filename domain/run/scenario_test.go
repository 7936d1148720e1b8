package run_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/domain/run/runtest"
)

// TestScenarios plays testdata/scenarios/*.txt. A scenario is a text: lines with # are for
// people, a line is a command, and the lines with > under it are what it answers; -update
// writes them anew. Every event also goes to the oracle, which must agree. The commands:
//
//	create WORDS            a new run, see runtest.Create
//	EVENT WORDS             something happens, see runtest.Event; without at= it is one
//	                        millisecond after the last
//	time MS                 what time alone brings until then, one thing after the other
//	request                 what the runtime is asked
//	calls, run, plan        what the run looks like, and what is to be done
//	waits                   whose move is next
//	history, resume CURSOR  what others get
//	restart                 everything through JSON, as a continue-as-new does
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) < 12 {
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
	*runtest.Pair
	now int64
}

func (s *scenario) do(line string) (string, error) {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "create":
		c, err := runtest.Create(rest)
		if err != nil {
			return "", err
		}
		if s.Pair, err = runtest.NewPair(c); err != nil {
			return refusal(err)
		}
		s.Careful, s.now = true, c.NowMs
		return summary(s.Run), nil
	case "time":
		ms, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return "", err
		}
		s.now = ms
		return s.pass()
	case "restart":
		return summary(s.Run), s.Restart()
	case "resume":
		cursor, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return "", err
		}
		p, err := run.Resume(s.Run, cursor)
		if err != nil {
			return refusal(err)
		}
		return strings.TrimSuffix(string(p.Mode)+"\n"+entries(p.Events), "\n"), nil
	}
	if look, known := map[string]func(run.Run) string{
		"request": asked, "calls": callsText, "run": described, "waits": run.WaitsFor,
		"history": func(r run.Run) string { return entries(r.History) },
		"plan":    func(r run.Run) string { return planned(run.Next(r, s.now)) },
	}[verb]; known {
		return or(look(s.Run), "nothing"), nil
	}
	e, err := runtest.Event(line)
	if err != nil {
		return "", err
	}
	if e.AtMs == 0 {
		e.AtMs = s.now + 1
	}
	s.now = max(s.now, e.AtMs)
	return s.apply(e)
}

func (s *scenario) apply(e run.Event) (string, error) {
	tr, err := s.Apply(e)
	if err != nil {
		return refusal(err)
	}
	text := string(tr.Outcome.Reason)
	switch {
	case tr.Outcome.Duplicate:
		return text + ", repeat", nil
	case tr.Outcome.Changed:
		return text + " -> " + summary(tr.Run), nil
	}
	return text, nil
}

// pass lets time pass: what it brings, it brings one after the other.
func (s *scenario) pass() (string, error) {
	var all []string
	for {
		e, due := run.Due(s.Run, s.now)
		if !due {
			return or(strings.Join(all, "\n"), "nothing is due"), nil
		}
		out, err := s.apply(e)
		if err != nil {
			return "", err
		}
		all = append(all, string(e.Type)+": "+out)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func refusal(err error) (string, error) {
	var disagree *runtest.Disagreement
	var invalid *domain.InvalidError
	if errors.As(err, &disagree) || !errors.As(err, &invalid) {
		return "", err
	}
	return "invalid: " + invalid.Field + " " + invalid.Rule, nil
}

// asked tells what a runtime is asked.
func asked(r run.Run) string {
	if r.Step == nil {
		return "no step"
	}
	req, checkpoint := r.Request()
	lines := []string{fmt.Sprintf("step %d, attempt %d, %s, token %s", req.Step, req.Attempt, req.Cause, req.StepToken)}
	if checkpoint != nil {
		lines = append(lines, "checkpoint "+string(checkpoint.Data))
	}
	for _, c := range req.Results {
		text := fmt.Sprintf("result %d/%s %s %s", c.AskedAtStep, c.ToolCallID, c.Tool, c.State)
		if c.Error != nil {
			text += " " + c.Error.Error()
		}
		for _, mark := range []struct {
			set  bool
			text string
		}{
			{len(c.Result) > 0, " " + string(c.Result)},
			{c.ResultRef != "", " at " + c.ResultRef},
			{c.Background, " (background)"},
			{c.InputEdited, " (edited: " + string(c.Input) + ")"},
		} {
			if mark.set {
				text += mark.text
			}
		}
		if a := c.Approval; a != nil {
			text += fmt.Sprintf(" (%s by %s)", a.Decision, or(a.By, "somebody"))
		}
		lines = append(lines, text)
	}
	for _, in := range req.Inputs {
		lines = append(lines, fmt.Sprintf("input %s %s", in.InputID, in.Content))
	}
	for _, p := range req.Pending {
		text := fmt.Sprintf("pending %d/%s %s %s", p.AskedAtStep, p.ToolCallID, p.Tool, p.Phase)
		if p.Background {
			text += " (background)"
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

func callsText(r run.Run) string {
	var lines []string
	for _, c := range slices.Concat(r.Done, r.Calls) {
		text := fmt.Sprintf("%d/%s %s %s", c.Step, c.ID, c.Tool, c.State)
		if c.Error != nil {
			text += " " + c.Error.Error()
		}
		if c.Cancel != nil && !c.State.Ended() {
			text += ", to be given up"
		}
		if c.TakenAt > 0 {
			text += fmt.Sprintf(", taken by step %d", c.TakenAt)
		}
		lines = append(lines, text)
	}
	for _, d := range r.Detached {
		lines = append(lines, fmt.Sprintf("%d/%s %s goes on detached", d.Step, d.ID, d.Tool))
	}
	return strings.Join(lines, "\n")
}

func described(r run.Run) string {
	lines := []string{fmt.Sprintf("%s, %d steps, deadline %d", summary(r), r.StepsDone, r.ExpiresAtMs)}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if r.Checkpoint != nil {
		add("checkpoint %s", r.Checkpoint.Data)
	}
	for _, o := range r.Outputs {
		add("said in step %d: %s", o.Step, o.Content)
	}
	for _, in := range r.Inputs {
		add("waiting input %s %s", in.InputID, in.Content)
	}
	if r.Final != nil {
		add("final %s", r.Final.Data)
	}
	if r.Error != nil {
		add("error %s", r.Error.Error())
	}
	if r.Tokens() > 0 {
		add("used %d tokens, %v dollars", r.Tokens(), r.CostUSD())
	}
	for _, k := range r.Unconfirmed {
		add("unconfirmed %d/%s", k.Step, k.ID)
	}
	if text := run.NextStep(r); text != "" {
		add("next: %s", text)
	}
	return strings.Join(lines, "\n")
}

func entries(h []run.Entry) string {
	var lines []string
	for _, e := range h {
		text := fmt.Sprintf("v%d %s: %s at %d, %s", e.Version, e.Event, e.Reason, e.AtMs, e.State)
		for _, part := range []struct{ name, value string }{{"call ", e.ToolCallID}, {"by ", e.By}, {"", e.Text}} {
			if part.value != "" {
				text += ", " + part.name + part.value
			}
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

func planned(p run.Plan) string {
	var parts []string
	for _, list := range []struct {
		what string
		keys []run.Key
	}{{"start", p.Start}, {"tell to stop", p.Cancel}, {"tell that nobody waits", p.Detach}} {
		for _, k := range list.keys {
			parts = append(parts, fmt.Sprintf("%s %d/%s", list.what, k.Step, k.ID))
		}
	}
	if p.Offer {
		parts = append(parts, "offer the step")
	}
	if p.Close {
		parts = append(parts, "close")
	}
	if p.WakeAtMs > 0 {
		parts = append(parts, fmt.Sprintf("wake at %d for the %s", p.WakeAtMs, p.WakeFor))
	}
	return strings.Join(parts, ", ")
}
