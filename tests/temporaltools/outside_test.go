package temporaltools

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	sdkactivity "go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	sdkworkflow "go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/activities/tool/gofunc"
)

// jobInput is what the jobs of these tests are called with.
type jobInput struct {
	Key          string `json:"key"`
	IgnoreCancel bool   `json:"ignoreCancel,omitempty"`
}

// The ends that a test may give to a job.
type ending struct {
	Result json.RawMessage `json:"result,omitempty"`
	Fail   bool            `json:"fail,omitempty"`
	// Vanish ends it without a word, as if its worker had been killed.
	Vanish bool `json:"vanish,omitempty"`
	// Word is heartbeated, and the job goes on.
	Word any `json:"word,omitempty"`
}

// outside is somebody's worker: an activity, a workflow and a function that know nothing of
// Wakepoint but their input, and that a test can direct by its key.
type outside struct {
	t      testing.TB
	client client.Client
	queue  string
	worker sdkworker.Worker

	mu      sync.Mutex
	started map[string]int
	running map[string]int
	// orders are for activities and functions, ids for workflows, which get signals.
	orders map[string]chan ending
	ids    map[string]string
}

func newOutside(t testing.TB, queue string) *outside {
	t.Helper()
	return (&outside{
		t: t, client: dial(t), queue: queue,
		started: map[string]int{}, running: map[string]int{}, orders: map[string]chan ending{}, ids: map[string]string{},
	}).start()
}

// start starts the worker, a new one after stop.
func (o *outside) start() *outside {
	o.t.Helper()
	w := sdkworker.New(o.client, o.queue, sdkworker.Options{MaxHeartbeatThrottleInterval: 100 * time.Millisecond})
	w.RegisterActivityWithOptions(o.activity, sdkactivity.RegisterOptions{Name: "outside.activity"})
	w.RegisterActivityWithOptions(o.count, sdkactivity.RegisterOptions{Name: "outside.count"})
	w.RegisterWorkflowWithOptions(o.workflow, sdkworkflow.RegisterOptions{Name: "outside.workflow"})
	typ, run := gofunc.Activity("outside", o.function)
	w.RegisterActivityWithOptions(run, sdkactivity.RegisterOptions{Name: typ})
	must(o.t, w.Start())
	o.worker = w
	o.t.Cleanup(sync.OnceFunc(w.Stop))
	return o
}

func (o *outside) begin(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started[key]++
	o.running[key]++
}

func (o *outside) end(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running[key]--
}

func (o *outside) counts(key string) (started, running int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.started[key], o.running[key]
}

// order is the channel by which a test directs the activity or function of a key.
func (o *outside) order(key string) chan ending {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.orders[key] == nil {
		o.orders[key] = make(chan ending, 8)
	}
	return o.orders[key]
}

var errVanish = errors.New("gone without a word")

// work is what an activity and a function do.
func (o *outside) work(ctx context.Context, in jobInput, beat func(any)) (any, error) {
	o.begin(in.Key)
	defer o.end(in.Key)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last any
	for {
		select {
		case e := <-o.order(in.Key):
			switch {
			case e.Word != nil:
				last = e.Word
			case e.Vanish:
				return nil, errVanish
			case e.Fail:
				return nil, temporal.NewApplicationErrorWithOptions("the card was declined", "PaymentDeclined",
					temporal.ApplicationErrorOptions{Details: []any{map[string]int{"cents": 7}}, NextRetryDelay: 1500 * time.Millisecond})
			}
			if e.Result != nil {
				return e.Result, nil
			}
		case <-tick.C:
			beat(last)
		case <-ctx.Done():
			if in.IgnoreCancel {
				ctx = context.WithoutCancel(ctx)
				continue
			}
			return nil, ctx.Err()
		}
	}
}

func (o *outside) activity(ctx context.Context, in jobInput) (any, error) {
	out, err := o.work(ctx, in, func(word any) { sdkactivity.RecordHeartbeat(ctx, word) })
	if errors.Is(err, errVanish) {
		return nil, sdkactivity.ErrResultPending
	}
	return out, err
}

func (o *outside) function(ctx context.Context, call gofunc.Call) (any, error) {
	var in jobInput
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return nil, err
	}
	out, err := o.work(ctx, in, func(word any) {
		if w, ok := word.(map[string]any); ok {
			call.Progress(w["progress"].(int), w["stage"].(string))
		}
	})
	if errors.Is(err, errVanish) {
		return nil, sdkactivity.ErrResultPending
	}
	return out, err
}

// count counts for the workflow, which can't.
func (o *outside) count(_ context.Context, key, id string, begins bool) error {
	if begins {
		o.begin(key)
		o.mu.Lock()
		o.ids[key] = id
		o.mu.Unlock()
		return nil
	}
	o.end(key)
	return nil
}

const (
	signalEnd     = "end"
	queryProgress = "how-far"
)

func (o *outside) workflow(ctx sdkworkflow.Context, in jobInput) (any, error) {
	var word any
	if err := sdkworkflow.SetQueryHandler(ctx, queryProgress, func() (any, error) { return word, nil }); err != nil {
		return nil, err
	}
	always, _ := sdkworkflow.NewDisconnectedContext(ctx)
	always = sdkworkflow.WithLocalActivityOptions(always, sdkworkflow.LocalActivityOptions{StartToCloseTimeout: 5 * time.Second})
	count := func(begins bool) error {
		return sdkworkflow.ExecuteLocalActivity(always, o.count, in.Key, sdkworkflow.GetInfo(ctx).WorkflowExecution.ID, begins).Get(always, nil)
	}
	if err := count(true); err != nil {
		return nil, err
	}
	signals := sdkworkflow.GetSignalChannel(ctx, signalEnd)
	for {
		var e ending
		cancelled := false
		s := sdkworkflow.NewSelector(ctx).AddReceive(signals, func(c sdkworkflow.ReceiveChannel, _ bool) { c.Receive(always, &e) })
		if !in.IgnoreCancel {
			s.AddReceive(ctx.Done(), func(sdkworkflow.ReceiveChannel, bool) { cancelled = true })
		}
		s.Select(always)
		if e.Word != nil {
			word = e.Word
			continue
		}
		if err := count(false); err != nil {
			return nil, err
		}
		switch {
		case cancelled:
			return nil, ctx.Err()
		case e.Fail:
			return nil, temporal.NewApplicationErrorWithOptions("the card was declined", "PaymentDeclined",
				temporal.ApplicationErrorOptions{Details: []any{map[string]int{"cents": 7}}, NonRetryable: true})
		}
		return e.Result, nil
	}
}

// signal directs the workflow of a key.
func (o *outside) signal(ctx context.Context, key string, e ending) error {
	o.mu.Lock()
	id := o.ids[key]
	o.mu.Unlock()
	return o.client.SignalWorkflow(ctx, id, "", signalEnd, e)
}
