package outside_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/tests/outside/service"
)

// lines makes a log of one task out of words: "start 1" (a job for key number 1), "fail 1" (the first
// job), "succeed 1", "cancel 1", "refuse 1" (the key).
func lines(mode service.Mode, words ...string) []service.Entry {
	var log []service.Entry
	jobs := 0
	for i, text := range words {
		var word string
		var n int
		if _, err := fmt.Sscan(text, &word, &n); err != nil {
			panic(err)
		}
		e := service.Entry{Seq: i + 1, Mode: mode, Task: "t", Job: fmt.Sprint("job-", n)}
		switch word {
		case "start":
			jobs++
			e.What, e.Job, e.Key = service.LogStarted, fmt.Sprint("job-", jobs), fmt.Sprint("default/t/", n)
		case "refuse":
			e.What, e.Job, e.Key = service.LogRefused, "", fmt.Sprint("default/t/", n)
		case "succeed":
			e.What, e.State = service.LogEnded, service.StateSucceeded
		case "fail":
			e.What, e.State = service.LogEnded, service.StateFailed
		case "cancel":
			e.What, e.State = service.LogEnded, service.StateCancelled
		}
		log = append(log, e)
	}
	return log
}

// A judge that finds nothing wrong is worth something only when it finds what is.
func TestJudge(t *testing.T) {
	t.Parallel()
	idempotent, unsafe := domain.EffectsIdempotent, domain.EffectsUnsafe
	no, yes := false, true
	unknown := &domain.TaskError{Code: domain.CodeOutcomeUnknown}
	for name, tc := range map[string]struct {
		mode    service.Mode
		log     []string
		effects domain.Effects
		task    domain.Task
		result  string
		asked   bool
		want    string // part of what is said; empty: all is well
	}{
		"one job":                          {service.Safe, []string{"start 1", "succeed 1"}, idempotent, domain.Task{State: domain.StateSucceeded}, "job-1", no, ""},
		"two jobs for a key":               {service.Safe, []string{"start 1", "start 1", "succeed 1"}, idempotent, domain.Task{State: domain.StateSucceeded}, "job-1", no, "2 jobs for the key"},
		"two keys, and no failure":         {service.Safe, []string{"start 1", "start 2", "succeed 1"}, idempotent, domain.Task{State: domain.StateSucceeded}, "job-1", no, "has not definitely failed"},
		"a next key after a failure":       {service.Safe, []string{"start 1", "fail 1", "start 2", "succeed 2"}, idempotent, domain.Task{State: domain.StateSucceeded}, "job-2", no, ""},
		"a next key after a refusal":       {service.Safe, []string{"refuse 1", "start 2", "succeed 1"}, idempotent, domain.Task{State: domain.StateSucceeded}, "job-1", no, ""},
		"a second job beside the first":    {service.Unsafe, []string{"start 1", "start 1", "succeed 1"}, unsafe, domain.Task{State: domain.StateSucceeded}, "job-1", no, "was started beside or after job-1"},
		"a second job after a success":     {service.Unsafe, []string{"start 1", "succeed 1", "start 1", "succeed 2"}, unsafe, domain.Task{State: domain.StateSucceeded}, "job-1", no, "was started beside or after job-1"},
		"a second job after a failure":     {service.Unsafe, []string{"start 1", "fail 1", "start 2", "succeed 2"}, unsafe, domain.Task{State: domain.StateSucceeded}, "job-2", no, ""},
		"the result of another job":        {service.Safe, []string{"start 1", "succeed 1"}, idempotent, domain.Task{State: domain.StateSucceeded}, "job-7", no, "of no job of it"},
		"success of a job that failed":     {service.Safe, []string{"start 1", "fail 1"}, idempotent, domain.Task{State: domain.StateSucceeded}, "job-1", no, "of no job of it"},
		"failure of a job that succeeded":  {service.Safe, []string{"start 1", "succeed 1"}, idempotent, domain.Task{State: domain.StateFailed}, "", no, `the last job ended "succeeded"`},
		"failure of a job that failed":     {service.Safe, []string{"start 1", "fail 1"}, idempotent, domain.Task{State: domain.StateFailed}, "", no, ""},
		"failure after a refusal":          {service.Safe, []string{"start 1", "fail 1", "refuse 2"}, idempotent, domain.Task{State: domain.StateFailed}, "", no, ""},
		"outcome unknown, and unsafe":      {service.Unsafe, []string{"start 1", "succeed 1"}, unsafe, domain.Task{State: domain.StateFailed, Error: unknown}, "", no, ""},
		"outcome unknown, and harmless":    {service.Safe, []string{"start 1", "succeed 1"}, idempotent, domain.Task{State: domain.StateFailed, Error: unknown}, "", no, "could have been repeated"},
		"a person looks":                   {service.Unsafe, []string{"start 1"}, unsafe, domain.Task{State: domain.StateRunning, Manual: &domain.Manual{}, Error: unknown}, "", no, ""},
		"a person looks without need":      {service.Safe, []string{"start 1"}, idempotent, domain.Task{State: domain.StateRunning, Manual: &domain.Manual{}, Error: unknown}, "", no, "without need"},
		"cancelled, and nobody asked":      {service.Safe, []string{"start 1", "cancel 1"}, idempotent, domain.Task{State: domain.StateCancelled, Confirmed: &yes}, "", no, "nobody asked"},
		"cancelled, as asked":              {service.Safe, []string{"start 1", "cancel 1"}, idempotent, domain.Task{State: domain.StateCancelled, Confirmed: &yes}, "", yes, ""},
		"cancelled, and it succeeded":      {service.Safe, []string{"start 1", "succeed 1"}, idempotent, domain.Task{State: domain.StateCancelled, Confirmed: &yes}, "", yes, "the job succeeded"},
		"cancelled, which nobody confirms": {service.Safe, []string{"start 1", "succeed 1"}, idempotent, domain.Task{State: domain.StateCancelled, Confirmed: &no}, "", yes, ""},
		"expired":                          {service.Safe, []string{"start 1", "succeed 1"}, idempotent, domain.Task{State: domain.StateExpired}, "", no, "ended as expired"},
		"never ended":                      {service.Safe, []string{"start 1"}, idempotent, domain.Task{State: domain.StateRunning}, "", no, "ended as running"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.task.ID, tc.task.Policy.Effects = "t", tc.effects
			var said []string
			j := judge{
				say:   func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) },
				asked: map[string]bool{"t": tc.asked}, log: lines(tc.mode, tc.log...), ends: map[string]domain.Task{"t": tc.task},
				read: func(string, string) ([]byte, error) {
					return fmt.Appendf(nil, `{"task":"t","done":%q}`, tc.result), nil
				},
			}
			j.all()
			if tc.want == "" && len(said) > 0 || tc.want != "" && !strings.Contains(strings.Join(said, "\n"), tc.want) {
				t.Errorf("the judge says %q, want %q", said, tc.want)
			}
		})
	}
}

// A job for a task that nobody submitted is nobody's to explain.
func TestJudgeFindsStrangers(t *testing.T) {
	t.Parallel()
	said := 0
	j := judge{say: func(string, ...any) { said++ }, log: lines(service.Safe, "start 1"), ends: map[string]domain.Task{}}
	j.all()
	if said != 1 {
		t.Errorf("the judge says %d things", said)
	}
}
