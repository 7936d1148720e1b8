package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter/agent"
)

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
