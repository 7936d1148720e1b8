package runs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
)

const randomTools = `
tools:
  review:
    executor: external
    ttl: 10m
    maxAttempts: 1
    cancelGrace: 1s
    inputSchema: {type: object, properties: {n: {type: integer}}, additionalProperties: true}
runtimes: {agent: {pull: {}, checkEvery: 1s, lease: 1m}}
`

// gambler is a runtime that does at random what runtimes do, and keeps a log of its own
// of the steps whose commit was acknowledged.
type gambler struct {
	in   *harness.Installation
	id   string
	rng  *rand.Rand
	last int

	log []gamble
}

type gamble struct {
	req  run.StepRequest
	resp run.StepResponse
}

func (g *gambler) one(of int) bool { return g.rng.IntN(of) == 0 }

// play takes the steps of its run to the end.
func (g *gambler) play(ctx context.Context) error {
	for {
		req, err := g.in.Client.Next(ctx, g.id, starter.NextOptions{Holder: "h", Wait: time.Minute})
		if err != nil {
			return err
		}
		if req.Attempt == 1 && g.one(5) {
			// It dies in the middle of the step, and its last word comes later.
			old := req
			if req, err = g.in.Client.Next(ctx, g.id, starter.NextOptions{Holder: "h", Wait: time.Minute}); err != nil {
				return err
			}
			if len(req.Results) != len(old.Results) || len(req.Inputs) != len(old.Inputs) {
				return fmt.Errorf("step %d is about something else the second time", req.Step)
			}
			if _, err := g.in.Client.Commit(ctx, g.id, old.Step, old.StepToken, run.StepResponse{Final: raw(`"old"`)}); err == nil {
				return fmt.Errorf("an old token of step %d was taken", old.Step)
			}
		}
		resp := g.answer(req)
		if err := g.commit(ctx, req, resp); err != nil {
			return err
		}
		if len(resp.Final) > 0 {
			return nil
		}
	}
}

// commit commits, now and then against a rival: exactly one of the two is taken.
func (g *gambler) commit(ctx context.Context, req run.StepRequest, resp run.StepResponse) error {
	if !g.one(5) {
		if _, err := g.in.Client.Commit(ctx, g.id, req.Step, req.StepToken, resp); err != nil {
			return fmt.Errorf("step %d: %w", req.Step, err)
		}
		g.log = append(g.log, gamble{req, resp})
		return nil
	}
	rival := resp
	rival.Checkpoint = raw(`"the rival's"`)
	both := []run.StepResponse{resp, rival}
	errs := make([]error, len(both))
	var wait sync.WaitGroup
	for i := range both {
		wait.Go(func() { _, errs[i] = g.in.Client.Commit(ctx, g.id, req.Step, req.StepToken, both[i]) })
	}
	wait.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		return fmt.Errorf("of two commits of step %d: %w, %w", req.Step, errs[0], errs[1])
	}
	g.log = append(g.log, gamble{req, resp})
	return nil
}

// answer is what the agent does next, by lot.
func (g *gambler) answer(req run.StepRequest) run.StepResponse {
	var resp run.StepResponse
	for _, p := range req.Pending {
		if req.Step >= g.last && !p.Background || g.one(6) {
			resp.CancelCalls = append(resp.CancelCalls, run.CancelCall{ToolCallID: p.ToolCallID, AskedAtStep: p.AskedAtStep})
		}
	}
	if req.Step >= g.last {
		resp.Final = raw(`"done"`)
		return resp
	}
	resp.Checkpoint = raw(fmt.Sprintf(`{"step": %d}`, req.Step))
	resp.WakeOnInput = g.one(2)
	if g.one(2) {
		resp.Wake = run.WakeAny
	}
	for i := range g.rng.IntN(4) {
		c := run.ToolCall{ToolCallID: fmt.Sprintf("call_%d", i), Tool: "review", Input: raw(`{"n": 1}`)}
		switch {
		case g.one(8):
			c.Tool = "nothing"
		case g.one(8):
			c.Input = raw(`{"n": "one"}`)
		case i > 0 && g.one(3):
			c.DependsOn = []string{"call_0"}
		case g.one(5):
			c.Background = true
		case g.one(8):
			c.WaitMs = 200
		}
		resp.ToolCalls = append(resp.ToolCalls, c)
	}
	if len(resp.ToolCalls)+len(req.Pending) == 0 {
		resp.Await = run.AwaitInput
	}
	return resp
}

// world ends the tasks of a run, well or badly, some twice, and says something now and
// then, always when it is waited for.
func (g *gambler) world(ctx context.Context, rng *rand.Rand) {
	seen := map[string]bool{}
	said := 0
	for ch, err := range g.in.Client.WatchRun(ctx, g.id, 0) {
		if err != nil {
			return
		}
		r := ch.Description.Run
		for _, c := range r.Calls {
			if c.State != run.CallOpen || c.TaskID == "" || seen[c.TaskID] {
				continue
			}
			seen[c.TaskID] = true
			e := domain.Event{Type: domain.EventSucceed, Result: raw(`{"of": "` + c.TaskID + `"}`)}
			if rng.IntN(5) == 0 {
				e = domain.Event{Type: domain.EventFail, Error: &domain.TaskError{Code: "NO", Message: "no"}}
			}
			// A callback for a task that was given up meanwhile is refused, and that is fine.
			for range 1 + rng.IntN(2) {
				_, _ = g.in.Client.Callback(ctx, c.TaskID, domain.Callback{CallbackID: "end", Event: e})
			}
		}
		if r.State == run.StateWaitingInput || rng.IntN(6) == 0 {
			said++
			_, _ = g.in.Client.Say(ctx, g.id, saidBy("world", fmt.Sprint("said-", said), strconv.Itoa(said)))
		}
	}
}

// check looks at the runtime's own log alone.
func (g *gambler) check() error {
	given, inputs := map[run.Key]int{}, map[string]int{}
	place := map[run.Key]int{}
	for _, l := range g.log {
		last := -1
		for _, r := range l.req.Results {
			k := run.Key{Step: r.AskedAtStep, ID: r.ToolCallID}
			at, asked := place[k]
			if given[k]++; !asked || given[k] > 1 || at < last {
				return fmt.Errorf("result of %+v in step %d: asked for %v, given %d times, place %d after %d", k, l.req.Step, asked, given[k], at, last)
			}
			last = at
			if r.State == run.CallSucceeded && string(r.Result) != `{"of":"`+r.TaskID+`"}` && string(r.Result) != `{"of": "`+r.TaskID+`"}` {
				return fmt.Errorf("result of %+v is %s", k, r.Result)
			}
		}
		for _, in := range l.req.Inputs {
			if inputs[in.InputID]++; inputs[in.InputID] > 1 {
				return fmt.Errorf("input %s came twice", in.InputID)
			}
		}
		for i, c := range l.resp.ToolCalls {
			place[run.Key{Step: l.req.Step, ID: c.ToolCallID}] = l.req.Step*100 + i
		}
	}
	end := g.log[len(g.log)-1]
	for k := range place {
		left := slices.ContainsFunc(end.req.Pending, func(p run.Pending) bool { return p.ToolCallID == k.ID && p.AskedAtStep == k.Step })
		if given[k] == 0 && !left {
			return fmt.Errorf("call %+v has no result, and was not open at the end", k)
		}
	}
	return nil
}

// Runs that do at random what runtimes do, on the real engine: every committed call has
// one result in one committed step, every input comes once, and every run ends. The test
// environment plays thousands of them (TestExactlyOnceIntoTheModel); here are real
// signals, timers, retries and continue-as-news.
func TestRandomRuns(t *testing.T) {
	t.Parallel()
	ctx := within(t, randomWithin)
	seed := uint64(20261201)
	if text := os.Getenv("WAKEPOINT_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	in := harness.Install(t, shared, tenantOf(t), randomTools, nil).StartWorker()
	c, err := starter.New(starter.Options{Temporal: in.Temporal, Config: in.Config, Store: in.Store, ContinueAfterEvents: 40})
	require.NoError(t, err)
	steps := make([]int, randomRuns)
	each(t, randomRuns, func(i int) error {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		g := &gambler{in: in, id: fmt.Sprintf("random-%d", i), rng: rng, last: 2 + rng.IntN(5)}
		if _, err := c.StartRun(ctx, starter.RunStart{RunID: g.id, Runtime: "agent", Input: raw(`"go"`)}); err != nil {
			return err
		}
		var world sync.WaitGroup
		world.Go(func() { g.world(ctx, rand.New(rand.NewPCG(seed, uint64(i)+1<<32))) })
		if err := g.play(ctx); err != nil {
			return fmt.Errorf("run %s, seed %d: %w", g.id, seed, err)
		}
		world.Wait()
		steps[i] = len(g.log)
		if err := g.check(); err != nil {
			return fmt.Errorf("run %s, seed %d: %w", g.id, seed, err)
		}
		d, err := in.Client.WaitRun(ctx, g.id, 0)
		if err == nil && d.Run.State != run.StateSucceeded {
			err = fmt.Errorf("run %s is %s", g.id, d.Run.State)
		}
		return err
	})
	total := 0
	for _, n := range steps {
		total += n
	}
	t.Logf("%d runs, %d steps", randomRuns, total)
}
