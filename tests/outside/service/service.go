package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mode is one of the services that the server is.
type Mode string

// The modes.
const (
	// Safe acts once for a key.
	Safe Mode = "safe"
	// Unsafe acts for every POST.
	Unsafe Mode = "unsafe"
)

// The states of a job, in the words of the service.
const (
	StateRunning   = "running"
	StateSucceeded = "succeeded"
	StateFailed    = "failed"
	StateCancelled = "cancelled"
)

// Options is what a server needs.
type Options struct {
	// LogFile is where it writes down what it really does. Required.
	LogFile string
	// Plan says how the jobs of a key behave, asked once for each key. Required.
	Plan func(Submission) Plan
	// Callback takes the callbacks.
	// Default: none are sent.
	Callback func(context.Context, Callback) error
	// Hang is how long it hangs.
	// Default: 5 s.
	Hang time.Duration
	// Transit is how long a request may be on its way: the find of /unsafe/ waits so long before it
	// says no.
	// Default: 250 ms.
	Transit time.Duration
	// RetryAfter is what it says when it throttles, in whole seconds.
	// Default: 1 s.
	RetryAfter time.Duration
	// PageSize is how many jobs are on a page of the list.
	// Default: 3.
	PageSize int
}

// Callback is what the service tells by itself.
type Callback struct {
	Tenant, Task string
	Attempt      int
	// ID is the same for the same word said twice.
	ID string
	// State is running for a progress, else how the job ended.
	State    string
	Progress int
	// Result is set for a success.
	Result json.RawMessage
}

// Server is the service. It is an [http.Handler].
type Server struct {
	o   Options
	mux *http.ServeMux
	log *evidence
	// ctx is done when the server is closed; what it does on its own account runs under it.
	ctx    context.Context //nolint:containedctx // it is the server's own lifetime
	stop   context.CancelFunc
	owned  sync.WaitGroup
	mu     sync.Mutex
	closed bool
	due    int
	keys   map[modeKey]*keyState
	jobs   map[string]*job
	order  []*job
}

type modeKey struct {
	mode Mode
	key  string
}

// keyState is what the service knows of a key, which it never forgets.
type keyState struct {
	plan  Plan
	posts int
	jobs  []*job
	// fence counts how often find has said no: a POST that came before never acts.
	fence int
}

type job struct {
	Submission
	id          string
	plan        Plan
	state       string
	startedAt   time.Time
	endedAt     time.Time
	result      json.RawMessage
	looks       int
	afterEnd    int
	cancelAsked bool
	forgotten   bool
	// told: a callback has told the end.
	told bool
}

// New makes a server.
func New(o Options) (*Server, error) {
	switch {
	case o.LogFile == "":
		return nil, errors.New("logFile must be given")
	case o.Plan == nil:
		return nil, errors.New("plan must be given")
	}
	if o.Hang == 0 {
		o.Hang = 5 * time.Second
	}
	if o.Transit == 0 {
		o.Transit = 250 * time.Millisecond
	}
	if o.RetryAfter == 0 {
		o.RetryAfter = time.Second
	}
	if o.PageSize == 0 {
		o.PageSize = 3
	}
	log, err := openEvidence(o.LogFile)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, log: log, keys: map[modeKey]*keyState{}, jobs: map[string]*job{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.mux = s.routes()
	return s, nil
}

// Close ends what the server does on its own account and closes the log. Its error says that the
// log cannot be trusted.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.owned.Wait()
	return s.log.close()
}

// Started is how many jobs were really started for a key.
func (s *Server) Started(m Mode, key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[modeKey{m, key}]; k != nil {
		return len(k.jobs)
	}
	return 0
}

// Running is how many jobs of a key run.
func (s *Server) Running(m Mode, key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	if k := s.keys[modeKey{m, key}]; k != nil {
		for _, j := range k.jobs {
			if j.state == StateRunning {
				n++
			}
		}
	}
	return n
}

// Posts is how many POSTs of a key came in.
func (s *Server) Posts(m Mode, key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[modeKey{m, key}]; k != nil {
		return k.posts
	}
	return 0
}

// Open is how many jobs run in all, and how much else the server has yet to do by itself, such as
// callbacks.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.due
	for _, j := range s.order {
		if j.state == StateRunning {
			n++
		}
	}
	return n
}

// Succeed ends the running jobs of a key with a result.
func (s *Server) Succeed(m Mode, key string, result json.RawMessage) {
	s.each(m, key, func(j *job) { s.end(j, StateSucceeded, result) })
}

// Fail ends the running jobs of a key without success.
func (s *Server) Fail(m Mode, key string) {
	s.each(m, key, func(j *job) { s.end(j, StateFailed, nil) })
}

// ForgetJobs forgets the jobs of a key that are over.
func (s *Server) ForgetJobs(m Mode, key string) {
	s.each(m, key, func(j *job) {
		if j.state != StateRunning {
			s.forget(j)
		}
	})
}

func (s *Server) each(m Mode, key string, do func(*job)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[modeKey{m, key}]; k != nil {
		for _, j := range k.jobs {
			do(j)
		}
	}
}

// keyOf is the state of a key, with its plan when it is new; the caller holds the lock.
func (s *Server) keyOf(sub Submission) *keyState {
	k := s.keys[modeKey{sub.Mode, sub.Key}]
	if k == nil {
		k = &keyState{plan: s.o.Plan(sub)}
		s.keys[modeKey{sub.Mode, sub.Key}] = k
	}
	return k
}

// start really starts a job; the caller holds the lock. The log has it before anybody can hear of
// it.
func (s *Server) start(k *keyState, sub Submission) *job {
	j := &job{Submission: sub, id: fmt.Sprintf("job-%d", len(s.order)+1), plan: k.plan, state: StateRunning, startedAt: time.Now()}
	s.note(j, Entry{What: LogStarted})
	k.jobs = append(k.jobs, j)
	s.order = append(s.order, j)
	s.jobs[j.id] = j
	switch {
	case k.plan.Told:
	case k.plan.Lasts == 0:
		s.endByItself(j)
	default:
		s.after(k.plan.Lasts, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.endByItself(j)
		})
	}
	return j
}

func (s *Server) endByItself(j *job) {
	if j.plan.Fails {
		s.end(j, StateFailed, nil)
		return
	}
	result, err := json.Marshal(map[string]string{"task": j.Task, "done": j.id})
	if err != nil {
		result = json.RawMessage(`null`)
	}
	s.end(j, StateSucceeded, result)
}

// end ends a job that runs; the caller holds the lock.
func (s *Server) end(j *job, state string, result json.RawMessage) {
	if j.state != StateRunning {
		return
	}
	s.note(j, Entry{What: LogEnded, State: state, Cancelled: j.cancelAsked})
	j.state, j.result, j.endedAt = state, result, time.Now()
	// What a known key is answered with is its result, so what has none is not forgotten where keys
	// are known.
	if j.plan.Forgets > 0 && (state == StateSucceeded || j.Mode == Unsafe) {
		s.after(j.plan.Forgets, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.forget(j)
		})
	}
	s.tellEnd(j)
}

func (s *Server) forget(j *job) {
	if !j.forgotten {
		s.note(j, Entry{What: LogForgot})
		s.disturb(j.Submission, Forget)
		j.forgotten = true
	}
}

func (s *Server) note(j *job, e Entry) {
	e.Mode, e.Key, e.Task, e.Attempt, e.Job = j.Mode, j.Key, j.Task, j.Attempt, j.id
	s.log.add(e)
}

func (s *Server) disturb(sub Submission, f Fault) {
	s.log.add(Entry{What: LogDisturbed, Mode: sub.Mode, Key: sub.Key, Task: sub.Task, Attempt: sub.Attempt, Fault: f})
}

// after does something later, unless the server is closed; the caller holds the lock.
func (s *Server) after(d time.Duration, do func()) {
	if s.closed {
		return
	}
	s.due++
	s.owned.Go(func() {
		select {
		case <-time.After(d):
			do()
		case <-s.ctx.Done():
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.due--
	})
}

// newest gives the newest job of a key that is not forgotten; the caller holds the lock.
func (k *keyState) newest() *job {
	for _, j := range slices.Backward(k.jobs) {
		if !j.forgotten {
			return j
		}
	}
	return nil
}

// pathOf is where a job is looked at.
func pathOf(j *job) string { return "/" + strings.Join([]string{string(j.Mode), "jobs", j.id}, "/") }
