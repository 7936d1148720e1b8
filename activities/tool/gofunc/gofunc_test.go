package gofunc_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/gofunc"
	"github.com/wakepoint/wakepoint/store"
)

// starts is a client that takes starts. What becomes of them is the engine's to show: see
// tests/temporaltools.
type starts struct {
	client.Client
	options client.StartActivityOptions
	typ     any
	args    []any
}

type run struct{ client.ActivityHandle }

func (run) GetRunID() string { return "run-1" }

func (s *starts) ExecuteActivity(_ context.Context, o client.StartActivityOptions, typ any, args ...any) (client.ActivityHandle, error) {
	s.options, s.typ, s.args = o, typ, args
	return run{}, nil
}

func configOf(t *testing.T, s *starts) gofunc.Config {
	t.Helper()
	st, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return gofunc.Config{Client: s, Name: "resize", TaskQueue: "images", Store: st}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for rule, spoil := range map[string]func(*gofunc.Config){
		`go: name must not be blank`:                       func(c *gofunc.Config) { c.Name = "" },
		`go "resize": client must be set`:                  func(c *gofunc.Config) { c.Client = nil },
		`go "resize": store must be set`:                   func(c *gofunc.Config) { c.Store = nil },
		`go "resize": taskQueue must not be blank`:         func(c *gofunc.Config) { c.TaskQueue = "" },
		`go "resize": heartbeat -1ns must not be negative`: func(c *gofunc.Config) { c.Heartbeat = -1 },
	} {
		c := configOf(t, &starts{})
		spoil(&c)
		if _, err := gofunc.New(c); err == nil || err.Error() != rule {
			t.Errorf("got %v, want %s", err, rule)
		}
	}
}

func TestWhatIsStarted(t *testing.T) {
	t.Parallel()
	s := &starts{}
	ex, err := gofunc.New(configOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	h, err := ex.Submit(t.Context(), tool.Request{Tenant: "acme", TaskID: "t", Attempt: 2, SubmissionKey: "acme/t/1", Tool: "thumbnail", Input: json.RawMessage(`{"w":1}`)})
	if err != nil || h.Executor != "go" {
		t.Errorf("handle %+v, %v", h, err)
	}
	typ, _ := gofunc.Activity("resize", nil)
	if s.typ != typ || typ != "wakepoint.go/resize" || s.options.TaskQueue != "images" || s.options.HeartbeatTimeout != gofunc.DefaultHeartbeat {
		t.Errorf("%v is started with %+v", s.typ, s.options)
	}
	got, err := json.Marshal(s.args)
	want := `[{"tenant":"acme","taskId":"t","attempt":2,"submissionKey":"acme/t/1","tool":"thumbnail","input":{"w":1}}]`
	if err != nil || string(got) != want {
		t.Errorf("its arguments are %s, want %s", got, want)
	}
	if p := ex.Promises(); p.Survives || p.SubmitOnce != tool.ScopeAlways || p.Find != tool.FindSure {
		t.Errorf("it promises %+v", p)
	}
}

// A function can be tested without a worker: a call made by hand takes its progress and does
// nothing with it.
func TestCallsByHand(t *testing.T) {
	t.Parallel()
	fn := gofunc.Func(func(_ context.Context, c gofunc.Call) (any, error) {
		c.Progress(50, "half")
		return nil, &gofunc.Failure{Code: "NO_IMAGE", Message: "it is a film"}
	})
	_, err := fn(t.Context(), gofunc.Call{})
	var f *gofunc.Failure
	if !errors.As(err, &f) || err.Error() != "NO_IMAGE: it is a film" {
		t.Errorf("it failed with %v", err)
	}
}
