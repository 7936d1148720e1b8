package service

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds the body of a POST, in bytes.
const maxBody = 1 << 20

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, m := range []Mode{Safe, Unsafe} {
		mux.HandleFunc("POST /"+string(m)+"/jobs", func(w http.ResponseWriter, r *http.Request) { s.post(w, r, m) })
		mux.HandleFunc("GET /"+string(m)+"/jobs", func(w http.ResponseWriter, r *http.Request) { s.list(w, r, m) })
		mux.HandleFunc("GET /"+string(m)+"/jobs/{id}", func(w http.ResponseWriter, r *http.Request) { s.get(w, r, m) })
		mux.HandleFunc("DELETE /"+string(m)+"/jobs/{id}", func(w http.ResponseWriter, r *http.Request) { s.del(w, r, m) })
		mux.HandleFunc("GET /"+string(m)+"/find", func(w http.ResponseWriter, r *http.Request) { s.find(w, r, m) })
	}
	return mux
}

// ServeHTTP serves all modes.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// view is a job's JSON.
type view struct {
	ID        string          `json:"id"`
	Key       string          `json:"key"`
	State     string          `json:"state"`
	Progress  int             `json:"progress"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     any             `json:"error,omitempty"`
	StartedAt int64           `json:"startedAt"`
	EndedAt   int64           `json:"endedAt,omitempty"`
}

func (j *job) view() view {
	v := view{ID: j.id, Key: j.Key, State: j.state, Result: j.result, StartedAt: j.startedAt.UnixMilli()}
	if j.state != StateRunning {
		v.Progress, v.EndedAt = 100, j.endedAt.UnixMilli()
	}
	if j.state == StateFailed {
		v.Error = map[string]any{"code": "BROKEN", "message": "the job broke, as planned", "retryable": true}
	}
	return v
}

func answer(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // whoever reads it may be gone
}

// drop breaks the connection.
func drop(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 has nothing to hijack
	}
	_ = c.Close()
}

func (s *Server) hang(r *http.Request) { s.wait(r, s.o.Hang) }

// wait waits for a time, or until the client has gone or the server closes.
func (s *Server) wait(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	case <-s.ctx.Done():
	}
}

func (s *Server) throttle(w http.ResponseWriter, status int) {
	w.Header().Set("Retry-After", strconv.Itoa(int(s.o.RetryAfter.Seconds())))
	answer(w, status, map[string]string{"error": "not now"})
}

// submissionOf reads what a POST says of itself.
func submissionOf(r *http.Request, m Mode) Submission {
	attempt, _ := strconv.Atoi(r.Header.Get("Wakepoint-Attempt")) // 0 is not said
	return Submission{
		Mode: m, Key: r.Header.Get("Idempotency-Key"), Tenant: r.Header.Get("Wakepoint-Tenant"), Task: r.Header.Get("Wakepoint-Task"), Attempt: attempt,
	}
}

func (s *Server) post(w http.ResponseWriter, r *http.Request, m Mode) {
	sub := submissionOf(r, m)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return // the client is gone, and nothing was done
	}
	if sub.Key == "" || !json.Valid(body) || strings.Contains(string(body), `"refuse":true`) {
		answer(w, http.StatusUnprocessableEntity, map[string]string{"error": "the key is missing, or the input is not to my liking"})
		return
	}
	s.mu.Lock()
	k := s.keyOf(sub)
	fault, fence := Fault(""), k.fence
	if k.posts < len(k.plan.Posts) {
		fault = k.plan.Posts[k.posts]
	}
	k.posts++
	s.mu.Unlock()
	if fault != "" {
		s.disturb(sub, fault)
	}
	switch fault {
	case DropBefore:
		drop(w)
		return
	case Throttle:
		s.throttle(w, http.StatusTooManyRequests)
		return
	case Unavailable:
		s.throttle(w, http.StatusServiceUnavailable)
		return
	case Refuse:
		s.log.add(Entry{What: LogRefused, Mode: m, Key: sub.Key, Task: sub.Task, Attempt: sub.Attempt})
		answer(w, http.StatusLocked, map[string]any{"error": map[string]any{"code": "LOCKED", "message": "not this time"}})
		return
	case HangBefore:
		s.hang(r)
	case ProxyRetry:
		s.tell(s.act(sub, fence))
	default:
	}
	j, v := s.tell(s.act(sub, fence))
	s.respond(w, r, fault, j, v)
}

// tell sends the word that comes before the answer.
func (s *Server) tell(j *job, v view, early *Callback) (*job, view) {
	if early != nil {
		s.call(*early)
	}
	return j, v
}

// act starts the job of a POST, or finds the one that is there. It gives no job when find has said
// no since the POST came in, and the word that has to be sent before the answer.
func (s *Server) act(sub Submission, fence int) (j *job, v view, early *Callback) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keyOf(sub)
	switch {
	case sub.Mode == Safe && len(k.jobs) > 0:
		j = k.jobs[len(k.jobs)-1]
		return j, j.view(), nil
	case sub.Mode == Unsafe && k.fence != fence:
		return nil, view{}, nil
	}
	j = s.start(k, sub)
	if j.plan.Callback == CallbackEarly && j.state != StateRunning && s.o.Callback != nil {
		s.disturb(sub, CallbackEarly)
		c := j.endCallback("end")
		early, j.told = &c, true
	}
	return j, j.view(), early
}

// respond answers a POST that has acted.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, fault Fault, j *job, v view) {
	switch fault {
	case DropAfter:
		drop(w)
		return
	case HangAfter:
		s.hang(r)
		drop(w)
		return
	case BadGateway:
		answer(w, http.StatusBadGateway, map[string]string{"error": "the proxy heard nothing"})
		return
	default:
	}
	if j == nil {
		answer(w, http.StatusConflict, map[string]string{"error": "this request came too late"})
		return
	}
	s.mu.Lock()
	forgotten, result := j.forgotten, j.result
	s.mu.Unlock()
	if forgotten && v.State == StateSucceeded {
		answer(w, http.StatusOK, result) // the key is known, and what came of it
		return
	}
	if fault == TwoAnswers {
		twice(w, pathOf(j), v)
		return
	}
	w.Header().Set("Location", pathOf(j))
	answer(w, http.StatusAccepted, v)
}

// twice writes the same answer two times.
func twice(w http.ResponseWriter, location string, v view) {
	body, err := json.Marshal(v)
	if err != nil {
		return
	}
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = c.Close() }()
	for range 2 {
		fmt.Fprintf(buf, "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nLocation: %s\r\nContent-Length: %d\r\n\r\n%s", location, len(body), body)
	}
	_ = buf.Flush() // whoever reads it may be gone
}

// look takes one look at a job for a GET; false when the fault has answered already.
func (s *Server) look(w http.ResponseWriter, r *http.Request, j *job) bool {
	s.mu.Lock()
	fault := Fault("")
	if j.looks < len(j.plan.Looks) {
		fault = j.plan.Looks[j.looks]
	}
	j.looks++
	s.mu.Unlock()
	if fault != "" {
		s.disturb(j.Submission, fault)
	}
	switch fault {
	case LookThrottle:
		s.throttle(w, http.StatusTooManyRequests)
	case LookDrop:
		drop(w)
	case LookError:
		answer(w, http.StatusInternalServerError, map[string]string{"error": "oops"})
	case LookHang:
		s.hang(r)
		drop(w)
	default:
		return true
	}
	return false
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, m Mode) {
	s.mu.Lock()
	j := s.jobs[r.PathValue("id")]
	s.mu.Unlock()
	if j == nil || j.Mode != m {
		answer(w, http.StatusNotFound, map[string]string{"error": "no such job"})
		return
	}
	if !s.look(w, r, j) {
		return
	}
	s.mu.Lock()
	v, forgotten, changed := j.view(), j.forgotten, false
	if j.state == StateSucceeded && j.plan.MindChanges {
		// A callback counts as the first word.
		j.afterEnd++
		changed = (j.afterEnd%2 == 0) != j.told
	}
	s.mu.Unlock()
	switch {
	case forgotten:
		answer(w, http.StatusNotFound, map[string]string{"error": "no such job"})
	case changed:
		s.disturb(j.Submission, MindChange)
		answer(w, http.StatusOK, view{ID: v.ID, Key: v.Key, State: StateRunning, Progress: 50, StartedAt: v.StartedAt})
	default:
		answer(w, http.StatusOK, v)
	}
}

func (s *Server) del(w http.ResponseWriter, r *http.Request, m Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[r.PathValue("id")]
	if j == nil || j.Mode != m || j.forgotten {
		answer(w, http.StatusNotFound, map[string]string{"error": "no such job"})
		return
	}
	j.cancelAsked = true
	if !j.plan.Stubborn {
		s.end(j, StateCancelled, nil)
	}
	answer(w, http.StatusAccepted, j.view())
}

func (s *Server) find(w http.ResponseWriter, r *http.Request, m Mode) {
	sub := Submission{Mode: m, Key: r.URL.Query().Get("key")}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m == Unsafe && len(s.keyOf(sub).jobs) == 0 {
		// What was sent before it was asked gets the time to come in.
		s.mu.Unlock()
		s.wait(r, s.o.Transit)
		s.mu.Lock()
	}
	k := s.keyOf(sub)
	j := k.newest()
	if j == nil && m == Unsafe && len(k.jobs) > 0 {
		answer(w, http.StatusGone, map[string]string{"error": "there was a job"})
		return
	}
	if j == nil {
		k.fence++
		answer(w, http.StatusNotFound, map[string]string{"error": "no such key"})
		return
	}
	w.Header().Set("Location", pathOf(j))
	answer(w, http.StatusOK, j.view())
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, m Mode) {
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	if err != nil && r.URL.Query().Has("from") || from < 0 {
		answer(w, http.StatusBadRequest, map[string]string{"error": "from must be a number"})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	page := struct {
		Jobs []view `json:"jobs"`
		Next string `json:"next,omitempty"`
	}{Jobs: []view{}}
	for i := from; i < len(s.order); i++ {
		j := s.order[i]
		if j.Mode != m || j.forgotten {
			continue
		}
		if len(page.Jobs) == s.o.PageSize {
			page.Next = fmt.Sprintf("/%s/jobs?from=%d", m, i)
			break
		}
		page.Jobs = append(page.Jobs, j.view())
	}
	answer(w, http.StatusOK, page)
}
