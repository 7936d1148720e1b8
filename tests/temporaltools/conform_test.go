package temporaltools

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/activity"
	"github.com/wakepoint/wakepoint/activities/tool/gofunc"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest/conform"
	"github.com/wakepoint/wakepoint/activities/tool/workflow"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/store"
)

// heartbeat is how soon a job without a worker is lost.
const heartbeat = 2 * time.Second

// lossy is a client whose starts get lost on the way there or back.
type lossy struct {
	client.Client
	before, after error
}

func (l lossy) ExecuteActivity(ctx context.Context, o client.StartActivityOptions, a any, args ...any) (client.ActivityHandle, error) {
	if l.before != nil {
		return nil, l.before
	}
	h, err := l.Client.ExecuteActivity(ctx, o, a, args...)
	if err == nil {
		err = l.after
	}
	return h, err
}

func (l lossy) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, w any, args ...any) (client.WorkflowRun, error) {
	if l.before != nil {
		return nil, l.before
	}
	h, err := l.Client.ExecuteWorkflow(ctx, o, w, args...)
	if err == nil {
		err = l.after
	}
	return h, err
}

// made makes an executor with a client.
type made func(t conform.T, c client.Client) tool.Executor

func (o *outside) newActivity(st *store.Store) made {
	return func(t conform.T, c client.Client) tool.Executor {
		ex, err := activity.New(activity.Config{
			Name: "conform", Client: c, Store: st, Tool: config.ActivityTool{Type: "outside.activity", TaskQueue: o.queue, Heartbeat: heartbeat},
		})
		if err != nil {
			t.Fatalf("%v", err)
		}
		return ex
	}
}

func (o *outside) newFunction(st *store.Store) made {
	return func(t conform.T, c client.Client) tool.Executor {
		ex, err := gofunc.New(gofunc.Config{Name: "outside", Client: c, Store: st, TaskQueue: o.queue, Heartbeat: heartbeat})
		if err != nil {
			t.Fatalf("%v", err)
		}
		return ex
	}
}

func (o *outside) newWorkflow(st *store.Store) made {
	return func(t conform.T, c client.Client) tool.Executor {
		ex, err := workflow.New(workflow.Config{
			Name: "conform", Client: c, Store: st,
			Tool: config.WorkflowTool{Type: "outside.workflow", TaskQueue: o.queue, ProgressQuery: queryProgress, Args: config.ArgsSpread},
		})
		if err != nil {
			t.Fatalf("%v", err)
		}
		return ex
	}
}

// subject is what all three have in common.
func (o *outside) subject(st *store.Store, open made) conform.Subject {
	lost := errors.New("connection reset")
	submit := func(t conform.T, l lossy, req tool.Request) error {
		_, err := open(t, l).Submit(t.Context(), req)
		return err
	}
	return conform.Subject{
		New: func(t conform.T) tool.Executor { return open(t, o.client) },
		Plan: func(_ conform.T, key string, p conform.Plan) json.RawMessage {
			raw, _ := json.Marshal(jobInput{Key: key, IgnoreCancel: p.IgnoreCancel})
			return raw
		},
		Started: func(_ conform.T, key string) int { n, _ := o.counts(key); return n },
		Running: func(_ conform.T, key string) int { _, n := o.counts(key); return n },
		Succeed: func(_ conform.T, key string, result json.RawMessage) { o.order(key) <- ending{Result: result} },
		Fail:    func(_ conform.T, key string) { o.order(key) <- ending{Fail: true} },
		LoseAnswer: func(t conform.T, _ tool.Executor, req tool.Request) error {
			return submit(t, lossy{o.client, nil, lost}, req)
		},
		LoseRequest: func(t conform.T, _ tool.Executor, req tool.Request) error {
			return submit(t, lossy{o.client, lost, nil}, req)
		},
		Read: func(t conform.T, r tool.Result) []byte {
			b, err := st.Get(t.Context(), r.Ref, r.Hash)
			if err != nil {
				t.Fatalf("%v", err)
			}
			return b
		},
		Lose: func(t conform.T, key string) {
			o.order(key) <- ending{Vanish: true}
			h, _, err := open(t, o.client).Find(t.Context(), key)
			await(t, err, "the job is gone", func() bool {
				obs, err := open(t, o.client).Observe(t.Context(), h)
				return err == nil && obs.State == tool.StateLost
			})
		},
		Forget: func(t conform.T, key string) {
			h, _, err := open(t, o.client).Find(t.Context(), key)
			if err == nil {
				_, err = o.client.WorkflowService().DeleteActivityExecution(t.Context(), &workflowservice.DeleteActivityExecutionRequest{Namespace: "default", ActivityId: h.ID})
			}
			await(t, err, "the server forgets the activity", func() bool {
				_, found, err := open(t, o.client).Find(t.Context(), key)
				return err == nil && !found
			})
		},
	}
}

func await(t conform.T, err error, what string, holds func() bool) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("the test is over before %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestConformanceOfActivity(t *testing.T) {
	t.Parallel()
	o, st := newOutside(t, unique("conform-activity")), blobs(t)
	conform.Run(t, o.subject(st, o.newActivity(st)))
}

func TestConformanceOfGo(t *testing.T) {
	t.Parallel()
	o, st := newOutside(t, unique("conform-go")), blobs(t)
	conform.Run(t, o.subject(st, o.newFunction(st)))
}

func TestConformanceOfWorkflow(t *testing.T) {
	t.Parallel()
	o, st := newOutside(t, unique("conform-workflow")), blobs(t)
	s := o.subject(st, o.newWorkflow(st))
	s.Plan = func(_ conform.T, key string, p conform.Plan) json.RawMessage {
		raw, _ := json.Marshal([]jobInput{{Key: key, IgnoreCancel: p.IgnoreCancel}})
		return raw
	}
	s.Refuse = func(conform.T, string) json.RawMessage { return json.RawMessage(`{"no": "array"}`) }
	direct := func(t conform.T, key string, e ending) {
		if err := o.signal(t.Context(), key, e); err != nil {
			t.Fatalf("%v", err)
		}
	}
	s.Succeed = func(t conform.T, key string, result json.RawMessage) { direct(t, key, ending{Result: result}) }
	s.Fail = func(t conform.T, key string) { direct(t, key, ending{Fail: true}) }
	s.Lose = nil // the server always knows how a workflow ended
	s.Forget = func(t conform.T, key string) {
		h, _, err := s.New(t).Find(t.Context(), key)
		if err == nil {
			_, err = o.client.WorkflowService().DeleteWorkflowExecution(t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
				Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: h.ID},
			})
		}
		await(t, err, "the server forgets the workflow", func() bool {
			_, err := o.client.DescribeWorkflow(t.Context(), h.ID, "")
			var gone *serviceerror.NotFound
			return errors.As(err, &gone)
		})
	}
	conform.Run(t, s)
}
