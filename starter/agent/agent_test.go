package agent_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/agent"
)

// steps gives one step, and notes when it heard of its runtime.
type steps struct {
	req  run.StepRequest
	done chan struct{}

	mu    sync.Mutex
	heard []time.Time
}

func (s *steps) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, time.Now())
}

func (s *steps) Next(context.Context, string, starter.NextOptions) (run.StepRequest, error) {
	select {
	case <-s.done:
		return run.StepRequest{}, starter.ErrEnded
	default:
		s.hear()
		return s.req, nil
	}
}

func (s *steps) StepHeartbeat(context.Context, string, string, json.RawMessage) (run.Outcome, error) {
	s.hear()
	return run.Outcome{}, nil
}

func (s *steps) Commit(context.Context, string, int, string, run.StepResponse) (run.Outcome, error) {
	s.hear()
	close(s.done)
	return run.Outcome{}, nil
}

// strict is a run that checks commits as the client does.
type strict struct {
	*steps
	got []run.StepResponse
}

func (s *strict) Commit(ctx context.Context, runID string, step int, token string, resp run.StepResponse) (run.Outcome, error) {
	s.got = append(s.got, resp)
	if err := run.CheckCommit(run.Event{Type: run.EventCommit, Step: step, Token: token, Response: &resp}); err != nil {
		return run.Outcome{}, &starter.Error{Code: starter.CodeInvalid, Message: err.Error()}
	}
	return s.steps.Commit(ctx, runID, step, token, resp)
}

// An answer that was refused, and whose refusal could not be said either because its usage
// or its own error broke the rule, was dropped: nobody was told why, and the step came again
// with the lease only.
func TestARefusedAnswerIsAFailureOfTheStep(t *testing.T) {
	t.Parallel()
	fine, wrong := []run.Usage{{Model: "m", InputTokens: 1}}, []run.Usage{{Model: "m", InputTokens: -1}}
	for name, c := range map[string]struct {
		resp  run.StepResponse
		err   error
		says  string
		usage []run.Usage
	}{
		"graph": {run.StepResponse{Wake: "never", Usage: fine}, nil, "wake", fine},
		"usage": {run.StepResponse{Usage: wrong}, nil, "usage", nil},
		"error": {run.StepResponse{Usage: fine}, &agent.FailedError{Reason: domain.TaskError{Message: "x", Details: json.RawMessage(`{`)}}, "error.details", fine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &strict{steps: &steps{done: make(chan struct{}), req: run.StepRequest{RunID: "r", Step: 1, StepToken: "t", LeaseMs: 60_000}}}
			err := agent.Pull(t.Context(), s, "r", func(context.Context, run.StepRequest) (run.StepResponse, error) { return c.resp, c.err }, agent.PullOptions{
				Holder: "me", Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			last := s.got[len(s.got)-1]
			require.Equal(t, run.CodeInvalidResponse, last.Error.Code)
			require.Contains(t, last.Error.Message, c.says)
			require.Equal(t, c.usage, last.Usage)
		})
	}
}

// A step with the shortest lease heartbeat once in a second, which is when that lease is
// over: whatever took longer was taken from its runtime.
func TestHeartbeatsComeWithinTheShortestLease(t *testing.T) {
	t.Parallel()
	long := func(context.Context, run.StepRequest) (run.StepResponse, error) {
		<-time.After(5 * time.Second)
		return run.StepResponse{Final: json.RawMessage(`1`)}, nil
	}
	for name, take := range map[string]func(ctx context.Context, s *steps) error{
		"pulled": func(ctx context.Context, s *steps) error {
			return agent.Pull(ctx, s, "r", long, agent.PullOptions{Holder: "me"})
		},
		"pushed": func(_ context.Context, s *steps) error {
			s.hear()
			body, err := json.Marshal(s.req)
			w := httptest.NewRecorder()
			agent.Handler(long, agent.HandlerOptions{Commits: s, Within: time.Nanosecond}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
			<-s.done
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const lease = time.Second
				s := &steps{done: make(chan struct{}), req: run.StepRequest{RunID: "r", Step: 1, StepToken: "t", LeaseMs: lease.Milliseconds()}}
				require.NoError(t, take(t.Context(), s))
				s.mu.Lock()
				defer s.mu.Unlock()
				require.Greater(t, len(s.heard), 10)
				for i := range s.heard[1:] {
					require.Less(t, s.heard[i+1].Sub(s.heard[i]), lease/2)
				}
			})
		})
	}
}

// failing is what a handler answers whose step fails.
func failing(t *testing.T, err error) *domain.TaskError {
	t.Helper()
	h := agent.Handler(func(context.Context, run.StepRequest) (run.StepResponse, error) { return run.StepResponse{}, err }, agent.HandlerOptions{})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"runId": "r", "step": 1, "stepToken": "t"}`)))
	require.Equal(t, http.StatusOK, w.Code)
	var resp run.StepResponse
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &resp))
	return resp.Error
}

// An error was cut in the middle of a character, each byte of which then became three:
// the answer was longer than it may be, so that the run refused it.
func TestALongErrorIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for shift := range 4 {
		e := failing(t, errors.New(strings.Repeat("x", shift)+strings.Repeat("😀", domain.MaxErrorText)))
		require.LessOrEqual(t, len(e.Message), domain.MaxErrorText)
		require.True(t, utf8.ValidString(e.Message))
		require.NotContains(t, e.Message, "\uFFFD")
		require.True(t, e.Retryable)
	}
}

func TestAnErrorSaysWhetherItMayPass(t *testing.T) {
	t.Parallel()
	require.Equal(t, &domain.TaskError{Code: run.CodeStepFailed, Message: "no"}, failing(t, agent.Final(errors.New("no"))))
	own := domain.TaskError{Code: "MODEL_UNAVAILABLE", Message: "busy", Retryable: true}
	require.Equal(t, &own, failing(t, &agent.FailedError{Reason: own}))
}

// The worker reads whsec_ secrets; a runtime that is given the same text has to too.
func TestSecret(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{" plain\n": "plain", "whsec_aGVsbG8=": "hello"} {
		got, err := agent.Secret(text)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := agent.Secret("whsec_%")
	require.ErrorContains(t, err, "base64")
}

// A variable that wasn't set was taken as a secret of no bytes, and anybody could sign
// with it.
func TestAnEmptySecretIsNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n", "whsec_", " whsec_\n"} {
		_, err := agent.Secret(text)
		require.ErrorContains(t, err, "must not be empty", "%q", text)
	}
}

// A handler that was given an empty secret took the signatures of everybody.
func TestAnEmptySecretSignsNothing(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	body := `{"runId":"r","step":1,"stepToken":"t"}`
	post := func(by []byte, secrets ...[]byte) int {
		h := agent.Handler(func(context.Context, run.StepRequest) (run.StepResponse, error) {
			return run.StepResponse{Final: json.RawMessage(`1`)}, nil
		}, agent.HandlerOptions{Secrets: secrets, Now: func() time.Time { return now }})
		stamp := strconv.FormatInt(now.Unix(), 10)
		mac := hmac.New(sha256.New, by)
		mac.Write([]byte("id." + stamp + "." + body))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Webhook-Id", "id")
		r.Header.Set("Webhook-Timestamp", stamp)
		r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	own := []byte("own")
	require.Equal(t, http.StatusOK, post(own, nil, own))
	require.Equal(t, http.StatusUnauthorized, post(nil, nil, own))
	require.Equal(t, http.StatusUnauthorized, post(nil, []byte{}))
	require.Equal(t, http.StatusUnauthorized, post(nil, nil, nil))
}
