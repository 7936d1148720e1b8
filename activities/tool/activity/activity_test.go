package activity_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/activity"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/store"
)

// server is a client whose server answers every call with the errors of a test. What it answers
// otherwise is the engine's to show: see tests/temporaltools.
type server struct {
	start, describe, cancel, list error

	started []client.StartActivityOptions
}

func (s *server) ExecuteActivity(_ context.Context, o client.StartActivityOptions, _ any, _ ...any) (client.ActivityHandle, error) {
	s.started = append(s.started, o)
	return run{s: s}, s.start
}

func (s *server) GetActivityHandle(client.GetActivityHandleOptions) client.ActivityHandle {
	return run{s: s}
}

func (s *server) ListActivities(context.Context, client.ListActivitiesOptions) (client.ListActivitiesResult, error) {
	return client.ListActivitiesResult{}, s.list
}

type run struct {
	client.ActivityHandle
	s *server
}

func (run) GetRunID() string { return "run-1" }

func (r run) Describe(context.Context, client.DescribeActivityOptions) (*client.ActivityExecutionDescription, error) {
	return nil, r.s.describe
}

func (r run) Cancel(context.Context, client.CancelActivityOptions) error { return r.s.cancel }

func configOf(t *testing.T, s *server) activity.Config {
	t.Helper()
	st, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return activity.Config{
		Name: "resize", Client: s, Store: st,
		Tool: config.ActivityTool{Type: "Resize", TaskQueue: "images", Heartbeat: 10 * time.Second, StartToClose: time.Hour},
	}
}

func setup(t *testing.T, s *server) *activity.Executor {
	t.Helper()
	ex, err := activity.New(configOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return ex
}

func request() tool.Request {
	return tool.Request{Tenant: "acme", TaskID: "t", Attempt: 1, SubmissionKey: "acme/t/1"}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for rule, spoil := range map[string]func(*activity.Config){
		`activity " ": name must not be blank`:                     func(c *activity.Config) { c.Name = " " },
		`activity "resize": client must be set`:                    func(c *activity.Config) { c.Client = nil },
		`activity "resize": store must be set`:                     func(c *activity.Config) { c.Store = nil },
		`activity "resize": type must not be blank`:                func(c *activity.Config) { c.Tool.Type = "" },
		`activity "resize": taskQueue must not be blank`:           func(c *activity.Config) { c.Tool.TaskQueue = "" },
		`activity "resize": startToClose -1s must not be negative`: func(c *activity.Config) { c.Tool.StartToClose = -time.Second },
		`activity "resize": heartbeat -1s must not be negative`:    func(c *activity.Config) { c.Tool.Heartbeat = -time.Second },
		`activity "resize": args "all" must be "one" or "spread"`:  func(c *activity.Config) { c.Tool.Args = "all" },
	} {
		c := configOf(t, &server{})
		spoil(&c)
		if _, err := activity.New(c); err == nil || err.Error() != rule {
			t.Errorf("got %v, want %s", err, rule)
		}
	}
}

func TestStartOptions(t *testing.T) {
	t.Parallel()
	s := &server{}
	ex := setup(t, s)
	for name, tc := range map[string]struct {
		deadline                      time.Duration
		scheduleToClose, startToClose time.Duration
	}{
		"no deadline":     {0, 365 * 24 * time.Hour, time.Hour},
		"a far deadline":  {3 * time.Hour, 3 * time.Hour, time.Hour},
		"a near deadline": {time.Minute, time.Minute, time.Minute},
	} {
		req := request()
		if tc.deadline > 0 {
			req.DeadlineAtMs = time.Now().Add(tc.deadline).UnixMilli()
		}
		if _, err := ex.Submit(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		o := s.started[len(s.started)-1]
		near := func(got, want time.Duration) bool { return got <= want && got > want-10*time.Second }
		if !near(o.ScheduleToCloseTimeout, tc.scheduleToClose) || !near(o.StartToCloseTimeout, tc.startToClose) || o.HeartbeatTimeout != 10*time.Second {
			t.Errorf("%s: time-outs %v, %v, %v", name, o.ScheduleToCloseTimeout, o.StartToCloseTimeout, o.HeartbeatTimeout)
		}
		if o.RetryPolicy.MaximumAttempts != 1 || o.ID != "acme/job/t/1" || o.TaskQueue != "images" ||
			o.ActivityIDReusePolicy != enumspb.ACTIVITY_ID_REUSE_POLICY_REJECT_DUPLICATE || o.ActivityIDConflictPolicy != enumspb.ACTIVITY_ID_CONFLICT_POLICY_FAIL {
			t.Errorf("%s: it is started with %+v", name, o)
		}
	}
}

func TestSubmitErrors(t *testing.T) {
	t.Parallel()
	already := serviceerror.NewActivityExecutionAlreadyStarted("already", "", "run-1")
	for name, tc := range map[string]struct {
		s server
		// code of a definite failure; empty when the error is ambiguous.
		code string
	}{
		"no standalone activities":  {server{start: serviceerror.NewUnimplemented("Standalone activity is disabled")}, "STANDALONE_ACTIVITIES"},
		"invalid":                   {server{start: serviceerror.NewInvalidArgument("bad")}, "REFUSED_BY_ENGINE"},
		"no namespace":              {server{start: serviceerror.NewNamespaceNotFound("n")}, "REFUSED_BY_ENGINE"},
		"unavailable":               {server{start: serviceerror.NewUnavailable("later")}, ""},
		"late":                      {server{start: context.DeadlineExceeded}, ""},
		"there, but not to be seen": {server{start: already, describe: serviceerror.NewUnavailable("later")}, ""},
		"there, and gone":           {server{start: already, describe: serviceerror.NewNotFound("gone")}, ""},
	} {
		_, err := setup(t, &tc.s).Submit(t.Context(), request())
		f, definite := tool.DefiniteFailure(err)
		if definite != (tc.code != "") || f.Code != tc.code || f.Retryable || definite == errors.Is(err, tool.ErrAmbiguous) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A refused request never gets to the server.
func TestSubmitChecksItsRequest(t *testing.T) {
	t.Parallel()
	s := &server{}
	req := request()
	req.Attempt = 0
	_, err := setup(t, s).Submit(t.Context(), req)
	if f, ok := tool.DefiniteFailure(err); !ok || f.Code != "INVALID_REQUEST" || len(s.started) != 0 {
		t.Errorf("%v after %d starts", err, len(s.started))
	}
}

func TestOtherVerbsErrors(t *testing.T) {
	t.Parallel()
	h, err := setup(t, &server{}).Submit(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	gone, down := serviceerror.NewNotFound("gone"), serviceerror.NewUnavailable("down")
	s := &server{describe: gone, cancel: gone}
	ex := setup(t, s)
	if obs, err := ex.Observe(t.Context(), h); err != nil || obs.State != tool.StateUnknown || obs.Definite || obs.Error.Code != "UNKNOWN_JOB" {
		t.Errorf("observe of a job that is gone: %+v, %v", obs, err)
	}
	if _, found, err := ex.Find(t.Context(), "acme/t/1"); found || err != nil {
		t.Errorf("find of a job that is gone: %v, %v", found, err)
	}
	if err := ex.Cancel(t.Context(), h); !errors.Is(err, tool.ErrUnknownHandle) {
		t.Errorf("cancel of a job that is gone: %v", err)
	}
	s.cancel = serviceerror.NewFailedPrecondition("activity is in terminal state")
	if err := ex.Cancel(t.Context(), h); err != nil {
		t.Errorf("cancel of a job that is over: %v", err)
	}
	s.describe, s.cancel, s.list = down, down, down
	_, oerr := ex.Observe(t.Context(), h)
	_, _, ferr := ex.Find(t.Context(), "acme/t/1")
	_, lerr := ex.List(t.Context(), "")
	for verb, err := range map[string]error{"observe": oerr, "find": ferr, "list": lerr, "cancel": ex.Cancel(t.Context(), h)} {
		if !errors.Is(err, down) || !strings.HasPrefix(err.Error(), verb) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	h.Executor = "workflow"
	_, oerr = ex.Observe(t.Context(), h)
	for verb, err := range map[string]error{"observe": oerr, "cancel": ex.Cancel(t.Context(), h)} {
		if !errors.Is(err, tool.ErrUnknownHandle) {
			t.Errorf("%s of another executor's handle: %v", verb, err)
		}
	}
	for _, cursor := range []string{"x", "-1"} {
		if _, err := ex.List(t.Context(), cursor); err == nil {
			t.Errorf("cursor %q is taken", cursor)
		}
	}
}
