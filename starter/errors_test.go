package starter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
)

// failing is an engine whose list gives one error.
type failing struct {
	starter.Engine
	err error
}

func (f failing) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return nil, f.err
}

func TestErrorsOfTheEngineHaveCodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want *starter.Error
	}{
		{serviceerror.NewUnavailable("x"), starter.ErrUnavailable},
		{serviceerror.NewResourceExhausted(enums.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "x"), starter.ErrUnavailable},
		{serviceerror.NewDeadlineExceeded("x"), starter.ErrUnavailable},
		{serviceerror.NewCanceled("x"), starter.ErrUnavailable},
		{serviceerror.NewWorkflowNotReady("x"), starter.ErrUnavailable},
		{serviceerror.NewNamespaceNotFound("x"), starter.ErrNotSetUp},
		{serviceerror.NewInvalidArgument("Namespace has no mapping defined for search attribute WakepointTool"), starter.ErrNotSetUp},
		{serviceerror.NewInvalidArgument("x"), starter.ErrInternal},
		{serviceerror.NewPermissionDenied("x", ""), starter.ErrDenied},
		{serviceerror.NewFailedPrecondition("no poller seen for task queue recently, worker may be down"), starter.ErrNoWorker},
		{serviceerror.NewFailedPrecondition("x"), starter.ErrInternal},
		{serviceerror.NewUnimplemented("x"), starter.ErrInternal},
		{errors.New("x"), starter.ErrInternal},
	} {
		w := setup(t)
		c, err := starter.New(starter.Options{Temporal: failing{w.engine, tc.err}, Now: w.clock.Load})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.List(t.Context(), starter.ListRequest{})
		if e := as(t, err, tc.want); !errors.Is(err, tc.err) || strings.Contains(e.Error(), "WakepointTool") {
			t.Errorf("%v gives %v", tc.err, err)
		}
	}
}

func TestCodesAreAClosedTable(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, ok := strings.Cut(string(b), "\n## Errors\n")
	if !ok {
		t.Fatal("docs/client.md has no section Errors")
	}
	seen := make(map[starter.Code]bool)
	for _, c := range starter.Codes() {
		if seen[c.Code] || c.Meaning == "" {
			t.Errorf("%s is there twice or means nothing", c.Code)
		}
		seen[c.Code] = true
		repeat := "no"
		if c.Repeat {
			repeat = "yes"
		}
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", c.Code, c.Meaning, repeat); !strings.Contains(page, row) {
			t.Errorf("docs/client.md lacks the row\n%s", row)
		}
	}
	if n := strings.Count(page, " | yes |\n") + strings.Count(page, " | no |\n"); n != len(seen) {
		t.Errorf("docs/client.md has %d rows for %d codes", n, len(seen))
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	e := &starter.Error{Code: starter.CodeUnknownTask, Message: "there is no task a"}
	if e.Error() != "unknown-task: there is no task a" || starter.ErrUnknownTask.Error() != "unknown-task" {
		t.Errorf("%q, %q", e, starter.ErrUnknownTask)
	}
	if errors.Is(e, starter.ErrInvalid) || !errors.Is(fmt.Errorf("op: %w", e), starter.ErrUnknownTask) || starter.CodeOf(nil) != "" {
		t.Error("codes are confused")
	}
}

func TestStanding(t *testing.T) {
	t.Parallel()
	want := map[domain.State]string{
		domain.StateQueued: "is queued", domain.StateRunning: "is running", domain.StateSucceeded: "has succeeded", domain.StateFailed: "has failed",
		domain.StateExpired: "has expired", domain.StateCancelled: "was cancelled",
	}
	for _, s := range domain.States() {
		if got := starter.Standing(s); got != want[s] {
			t.Errorf("%s: %q", s, got)
		}
	}
}
