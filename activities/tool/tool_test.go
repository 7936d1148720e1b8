package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/activities/tool"
)

func TestDefiniteFailure(t *testing.T) {
	t.Parallel()
	failure := tool.Failure{Code: "START_FAILED", Message: "no such file", Retryable: true}
	for _, tc := range []struct {
		name     string
		err      error
		definite bool
	}{
		{"not started", &tool.NotStartedError{Failure: failure}, true},
		{"not started, wrapped", fmt.Errorf("submit: %w", &tool.NotStartedError{Failure: failure, Cause: io.EOF}), true},
		{"ambiguous", &tool.AmbiguousError{Op: "submit", SubmissionKey: "k", Cause: io.EOF}, false},
		{"anything else", io.EOF, false},
		{"none", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, ok := tool.DefiniteFailure(tc.err)
			if ok != tc.definite {
				t.Fatalf("definite = %v, want %v", ok, tc.definite)
			}
			if ok && !cmp.Equal(got, failure) {
				t.Errorf("failure differs: %s", cmp.Diff(failure, got))
			}
		})
	}
}

func TestErrorsKeepKindAndCause(t *testing.T) {
	t.Parallel()
	notStarted := fmt.Errorf("x: %w", &tool.NotStartedError{Cause: io.EOF})
	ambiguous := fmt.Errorf("x: %w", &tool.AmbiguousError{Cause: io.EOF})
	for _, tc := range []struct {
		err, target error
		want        bool
	}{
		{notStarted, tool.ErrNotStarted, true},
		{notStarted, tool.ErrAmbiguous, false},
		{notStarted, io.EOF, true},
		{ambiguous, tool.ErrAmbiguous, true},
		{ambiguous, tool.ErrNotStarted, false},
		{ambiguous, io.EOF, true},
	} {
		if got := errors.Is(tc.err, tc.target); got != tc.want {
			t.Errorf("errors.Is(%v, %v) = %v, want %v", tc.err, tc.target, got, tc.want)
		}
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	want := map[tool.State]bool{
		tool.StateRunning: false, tool.StateUnknown: false, tool.State("of a later version"): false,
		tool.StateSucceeded: true, tool.StateFailed: true, tool.StateCancelled: true, tool.StateLost: true,
	}
	for state, terminal := range want {
		if state.Terminal() != terminal {
			t.Errorf("%s: terminal = %v, want %v", state, state.Terminal(), terminal)
		}
	}
}

// Observations travel through history, so their JSON is a contract.
func TestObservationJSON(t *testing.T) {
	t.Parallel()
	forty := 40
	for _, tc := range []struct {
		name string
		in   tool.Observation
		want string
	}{
		{
			"running",
			tool.Observation{State: tool.StateRunning, Progress: &forty, Stage: "linking", Worker: "h/pid 7", Attempt: 2, LastSeenAtMs: 5, NextInMs: 250},
			`{"state":"running","progress":40,"stage":"linking","worker":"h/pid 7","attempt":2,"lastSeenAtMs":5,"nextInMs":250,"definite":false}`,
		},
		{
			"succeeded",
			tool.Observation{State: tool.StateSucceeded, Definite: true, Result: &tool.Result{Ref: "blob:a/task/b/c", Hash: "c", ContentType: "text/plain", Bytes: 3}},
			`{"state":"succeeded","result":{"ref":"blob:a/task/b/c","hash":"c","contentType":"text/plain","bytes":3},"definite":true}`,
		},
		{
			"failed",
			tool.Observation{State: tool.StateFailed, Definite: true, Error: &tool.Failure{Code: "EXIT_STATUS", Message: "exit 2", Severity: tool.SeverityError, Class: tool.ClassUser}},
			`{"state":"failed","error":{"code":"EXIT_STATUS","message":"exit 2","severity":"error","class":"user","retryable":false},"definite":true}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, err := json.Marshal(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(b)); diff != "" {
				t.Errorf("json differs (-want +got):\n%s", diff)
			}
			var back tool.Observation
			if err := json.Unmarshal(b, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.in, back); diff != "" {
				t.Errorf("round trip differs:\n%s", diff)
			}
		})
	}
}
