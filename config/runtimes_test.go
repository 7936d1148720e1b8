package config_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const runtimes = `
maxTTL: 20d
tools:
  pay:
    executor: external
    approval: required
    approvalTTL: 2d
  ship:
    executor: external
    approval: required
runs:
  ttl: 1d
  cancelGrace: 30s
  checkEvery: 5s
  onFailedDependency: run
  limits: {maxSteps: 2, maxCalls: 30, maxOpenCalls: 3, maxTokens: 4000000000, maxCostUSD: 0.5}
runtimes:
  desk:
    title: Help desk
    description: Answers people.
    version: "7"
    push:
      url: http://lan.example.com/steps?team=a
      secret: {file: keys/desk}
      allowHTTP: true
      timeout: 45s
    lease: 90s
    stepTimeout: 20m
    stepAttempts: 4
    backoff: {initial: 2s, factor: 1.5, max: 1m30s, jitter: 0.5}
    ttl: 3d
    cancelGrace: 15s
    checkEvery: 10s
    onFailedDependency: run
    limits: {maxSteps: 40, maxCalls: 20, maxTokens: 1000, maxCostUSD: 2}
  graph: {activity: {taskQueue: agents, heartbeats: true}}
  own: {pull: }
`

func TestRuntimesAreRead(t *testing.T) {
	t.Parallel()
	c := parse(t, runtimes)
	week := 7 * 24 * time.Hour
	usual := run.Limits{MaxSteps: 1000, MaxCalls: 5000, MaxOpenCalls: 50}
	want := []config.Runtime{
		{
			Name: "desk", Title: "Help desk", Description: "Answers people.", Version: "7",
			Push: &config.PushRuntime{
				URL: "http://lan.example.com/steps?team=a", Secret: config.SecretRef{File: "/etc/wakepoint/keys/desk"}, AllowHTTP: true, Timeout: 45 * time.Second,
			},
			Lease: 90 * time.Second, StepTimeout: 20 * time.Minute, StepAttempts: 4,
			Backoff: domain.Backoff{InitialMs: 2000, Factor: 1.5, MaxMs: 90_000, Jitter: 0.5},
			TTL:     72 * time.Hour, CancelGrace: 15 * time.Second, CheckEvery: 10 * time.Second, OnFailedDependency: "run",
			Limits: run.Limits{MaxSteps: 40, MaxCalls: 20, MaxOpenCalls: 20, MaxTokens: 1000, MaxCostUSD: 2},
		},
		{
			Name: "graph", Title: "graph", Activity: &config.ActivityRuntime{TaskQueue: "agents", Heartbeats: true},
			Lease: time.Minute, StepTimeout: 10 * time.Minute, StepAttempts: 10,
			TTL: week, CancelGrace: 2 * time.Minute, CheckEvery: time.Minute, OnFailedDependency: "skip", Limits: usual,
		},
		{
			Name: "own", Title: "own", Pull: &config.PullRuntime{}, Lease: time.Minute, StepAttempts: 10,
			TTL: week, CancelGrace: 2 * time.Minute, CheckEvery: time.Minute, OnFailedDependency: "skip", Limits: usual,
		},
	}
	if diff := cmp.Diff(want, c.Runtimes); diff != "" {
		t.Error(diff)
	}
	plans := config.Runs{
		TTL: 24 * time.Hour, CancelGrace: 30 * time.Second, CheckEvery: 5 * time.Second, OnFailedDependency: "run",
		Limits: run.Limits{MaxSteps: 2, MaxCalls: 30, MaxOpenCalls: 3, MaxTokens: 4_000_000_000, MaxCostUSD: 0.5},
	}
	if diff := cmp.Diff(plans, c.Runs); diff != "" {
		t.Error(diff)
	}
	if _, ok := c.Runtime("nothing"); ok {
		t.Error("found nothing")
	}
	pay, _ := c.Tool("pay")
	ship, _ := c.Tool("ship")
	if pay.Approval != config.ApprovalRequired || pay.ApprovalTTL != 48*time.Hour || ship.ApprovalTTL != week {
		t.Errorf("approval of pay is %q for %s, of ship for %s", pay.Approval, pay.ApprovalTTL, ship.ApprovalTTL)
	}
}

// What a run is started with holds all that was declared, and the domain takes it.
func TestRuntimeBindingAndCreate(t *testing.T) {
	t.Parallel()
	c := parse(t, runtimes)
	bindings := map[string]protocol.RuntimeBinding{
		"desk":  {Mode: protocol.ModePush, Name: "desk", StepTimeoutMs: 1_200_000},
		"graph": {Mode: protocol.ModeActivity, Name: "graph", TaskQueue: "agents", StepTimeoutMs: 600_000, Heartbeats: true},
		"own":   {Mode: protocol.ModePull, Name: "own"},
	}
	for name, want := range bindings {
		r, ok := c.Runtime(name)
		if diff := cmp.Diff(want, r.Binding()); !ok || diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	desk, _ := c.Runtime("desk")
	create := desk.CreateDefaults()
	if diff := cmp.Diff(run.Create{
		Runtime: "desk", TTLMs: 259_200_000, RuntimeVersion: "7",
		Policy: run.Policy{
			LeaseMs: 90_000, StepAttempts: 4, StepBackoff: domain.Backoff{InitialMs: 2000, Factor: 1.5, MaxMs: 90_000, Jitter: 0.5},
			CancelGraceMs: 15_000, RunDependents: true, CheckEveryMs: 10_000,
		},
		Limits: run.Limits{MaxSteps: 40, MaxCalls: 20, MaxOpenCalls: 20, MaxTokens: 1000, MaxCostUSD: 2},
	}, create); diff != "" {
		t.Error(diff)
	}
	plan := c.RunDefaults()
	if diff := cmp.Diff(run.Create{
		TTLMs: 86_400_000, Policy: run.Policy{CancelGraceMs: 30_000, RunDependents: true, CheckEveryMs: 5000}, Limits: c.Runs.Limits,
	}, plan); diff != "" {
		t.Error(diff)
	}
	own, _ := c.Runtime("own")
	for _, create := range []run.Create{create, plan, own.CreateDefaults()} {
		create.ID, create.NowMs = "r", 1
		if _, err := run.New(create); err != nil {
			t.Error(err)
		}
	}
	if mode := (config.Runtime{}).Mode(); mode != "" {
		t.Errorf("one that says nothing is of mode %s", mode)
	}
}

// A run lives no longer than the installation allows, also where nobody says so.
func TestDefaultsStayWithinTheInstallation(t *testing.T) {
	t.Parallel()
	c := parse(t, "maxTTL: 2d\nresultTTL: 1d\ntools: {pay: {executor: external, approval: required}}\nruntimes: {a: {pull: {}}, b: {push: {url: 'https://x.example'}, stepTimeout: 20s}}\n")
	const two = 48 * time.Hour
	if c.Runs.TTL != two || c.Runtimes[0].TTL != two || c.Tools[0].ApprovalTTL != two || c.Runtimes[1].Push.Timeout != 20*time.Second {
		t.Errorf("got %+v, %+v and %+v", c.Runs, c.Runtimes, c.Tools[0])
	}
}

// Lists may be shown to callers: where a runtime is, is none of their business.
func TestRuntimeAsJSONLeavesTheServiceOut(t *testing.T) {
	t.Parallel()
	c := parse(t, runtimes)
	b, err := json.Marshal(c.Runtimes)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"lan.example.com", "keys", "agents"} {
		if strings.Contains(string(b), secret) {
			t.Errorf("%s is in %s", secret, b)
		}
	}
	var got []map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"name": "desk", "title": "Help desk", "mode": "push", "version": "7", "ttlMs": 259_200_000.0} {
		if got[0][key] != want {
			t.Errorf("%s is %v, want %v", key, got[0][key], want)
		}
	}
	pay, _ := c.Tool("pay")
	if b, err = json.Marshal(pay); err != nil || !strings.Contains(string(b), `"approval":"required","approvalTtlMs":172800000`) {
		t.Errorf("the tool is %s (%v)", b, err)
	}
}

func TestNewCopiesRuntimes(t *testing.T) {
	t.Parallel()
	given := []config.Runtime{{Name: "a", Push: &config.PushRuntime{URL: "https://x.example", Secret: config.SecretRef{File: "a"}}}}
	c, err := config.New(config.Config{Dir: "/etc", Runtimes: given})
	if err != nil {
		t.Fatal(err)
	}
	if given[0].Lease != 0 || given[0].Push.Timeout != 0 || given[0].Push.Secret.File != "a" {
		t.Errorf("the argument was changed: %+v", given[0])
	}
	if got := c.Runtimes[0].Push; got.Timeout != time.Minute || got.Secret.File != "/etc/a" {
		t.Errorf("got %+v", got)
	}
}

// What a file cannot say, Go can.
func TestNewHoldsTheRulesForRuntimes(t *testing.T) {
	t.Parallel()
	wrong := run.Limits{MaxSteps: -1, MaxCalls: -1, MaxOpenCalls: -1, MaxTokens: -1, MaxCostUSD: math.NaN()}
	_, err := config.New(config.Config{
		Runs: config.Runs{TTL: -1, CancelGrace: -1, Limits: wrong},
		Runtimes: []config.Runtime{
			{Name: "a", Pull: &config.PullRuntime{}},
			{Name: "a", Pull: &config.PullRuntime{}, StepAttempts: -1, Limits: run.Limits{MaxCostUSD: math.Inf(1)}},
		},
		Tools: []config.Tool{{Name: "t", Executor: "external", Approval: "required", ApprovalTTL: -1}},
	})
	want := []string{
		"tools.t.approvalTTL: must be at least 1s, it is -1ns",
		"runs.ttl: must be at least 1ms, it is -1ns",
		"runs.cancelGrace: must be at least 1ms, it is -1ns",
		"runs.limits.maxSteps: must be >= 1, it is -1",
		"runs.limits.maxCalls: must be >= 1, it is -1",
		"runs.limits.maxOpenCalls: must be >= 1, it is -1",
		"runs.limits.maxTokens: must be >= 1, it is -1",
		"runs.limits.maxCostUSD: must be a finite number > 0, it is NaN",
		"runtimes.a: is there twice",
		"runtimes.a.stepAttempts: must be 1 to 1000, it is -1",
		"runtimes.a.limits.maxCostUSD: must be a finite number > 0, it is +Inf",
	}
	if err == nil {
		t.Fatal("accepted")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Error(diff)
	}
}

func TestForeignQueues(t *testing.T) {
	t.Parallel()
	var got []string
	for _, f := range parse(t, executors+"runtimes: {own: {pull: {}}, graph: {activity: {taskQueue: agents}}}\n").ForeignQueues() {
		got = append(got, f.Key+" "+f.TaskQueue+" "+f.Of)
	}
	if diff := cmp.Diff([]string{
		"tools.count.activity.taskQueue typescript tool count",
		"tools.crawl.workflow.taskQueue typescript tool crawl",
		"runtimes.graph.activity.taskQueue agents runtime graph",
	}, got); diff != "" {
		t.Error(diff)
	}
}

var runtimeMistakes = map[string]mistake{
	"one way": {
		"runtimes:\n  a: {}\n  b: {pull: {}, push: {url: 'https://x.example'}}\n  c: {pull: {url: x}}\n  d: {pull: {}, stepTimeout: 5m}\n  e: 3\n  bad name: {pull: }\n  wakepoint.run: {pull: }\n",
		[]string{
			"2:3: runtimes.a: must have a section pull, push or activity: how the runtime gets its steps",
			"3:3: runtimes.b: must have one of the sections pull, push: a runtime gets its steps in one way",
			"4:14: runtimes.c.pull.url: is not a known key",
			"5:30: runtimes.d.stepTimeout: is for push and activity; a step that is pulled is bounded by its lease",
			"6:6: runtimes.e: must be a mapping, not a number",
			"7:3: runtimes.bad name: must consist of letters, digits, dot, underscore and hyphen",
			"8:3: runtimes.wakepoint.run: must not begin with wakepoint., which is for what is built in",
		},
	},
	"pushing": {
		"runtimes:\n  a: {push: }\n  b: {push: {url: 'http://x.example'}}\n  c: {push: {url: 'https://x.example', secret: {env: A, file: b}, timeout: 11m}}\n  d: {push: {url: 'https://x.example', timeout: 1ms, header: x}, stepTimeout: 10ms}\n",
		[]string{
			"2:13: runtimes.a.push.url: must be given: where steps are sent",
			"3:19: runtimes.b.push.url: must be https, or http to this host itself; allowHTTP: true allows it elsewhere",
			"4:40: runtimes.c.push.secret: must name either env or file, not both",
			"4:76: runtimes.c.push.timeout: must be at most stepTimeout, 10m; it is 11m",
			"5:49: runtimes.d.push.timeout: must be at least 100ms, it is 1ms",
			"5:54: runtimes.d.push.header: is not a known key; known are url, secret, allowHTTP, timeout",
			"5:79: runtimes.d.stepTimeout: must be at least 1s, it is 10ms",
		},
	},
	"queues of runtimes": {
		"tools:\n  t: {taskQueue: gpu, executor: external}\n  u: {rate: 1/s, go: {function: f}}\nruntimes:\n  a: {activity: }\n  b: {activity: {taskQueue: wakepoint}}\n  c: {activity: {taskQueue: gpu, heartbeats: yes}}\n  d: {activity: {taskQueue: wakepoint-tool-u}}\n  e: {activity: {taskQueue: /_sys/a, type: AgentStep}}\n",
		[]string{
			"5:17: runtimes.a.activity.taskQueue: must be given: where the runtime works",
			`6:29: runtimes.b.activity.taskQueue: must be that of the worker that knows AgentStep; "wakepoint" is the installation's own, whose workers do not`,
			`7:29: runtimes.c.activity.taskQueue: must be that of the worker that knows AgentStep; "gpu" is that of tool t, whose workers do not`,
			`7:46: runtimes.c.activity.heartbeats: must be true or false, not "yes"`,
			"8:29: runtimes.d.activity.taskQueue: must not be the one that the limits of tool u need for themselves",
			"9:29: runtimes.e.activity.taskQueue: must not begin with /_sys/ or __temporal_, which belong to the engine",
			"9:38: runtimes.e.activity.type: is not a known key; known are taskQueue, heartbeats",
		},
	},
	"what a run may": {
		"maxTTL: 5d\nruns: {ttl: 6d, checkEvery: 10ms, onFailedDependency: stop, limits: {maxOpenCalls: 101, maxSteps: 0, maxTokens: x, maxCostUSD: 0}, lease: 3s}\nruntimes:\n  a: {pull: {}, lease: 10ms, stepAttempts: 1001, backoff: {factor: 0.5, initial: 3s, max: 2s}, ttl: 6d, checkEvery: 0s, limits: {maxCall: 1}}\n",
		[]string{
			"2:13: runs.ttl: must be at most the installation's maxTTL, 5d; it is 6d",
			"2:29: runs.checkEvery: must be at least 1s, it is 10ms",
			`2:55: runs.onFailedDependency: must be skip or run, not "stop"`,
			"2:84: runs.limits.maxOpenCalls: must be at most 100, it is 101",
			"2:99: runs.limits.maxSteps: must be >= 1, it is 0",
			`2:113: runs.limits.maxTokens: must be a whole number, not "x"`,
			"2:128: runs.limits.maxCostUSD: must be more than 0",
			"2:132: runs.lease: is not a known key; known are ttl, cancelGrace, checkEvery, onFailedDependency, limits",
			"4:24: runtimes.a.lease: must be at least 1s, it is 10ms",
			"4:44: runtimes.a.stepAttempts: must be 1 to 1000, it is 1001",
			"4:68: runtimes.a.backoff.factor: must be a finite number >= 1, it is 0.5",
			"4:91: runtimes.a.backoff.max: must be at least backoff.initial",
			"4:101: runtimes.a.ttl: must be at most the installation's maxTTL, 5d; it is 6d",
			"4:117: runtimes.a.checkEvery: must be longer than 0",
			"4:130: runtimes.a.limits.maxCall: is not a known key; did you mean maxCalls?",
		},
	},
	"approval": {
		"maxTTL: 5d\ntools:\n  a: {executor: external, approval: maybe}\n  b: {executor: external, approvalTTL: 3d}\n  c: {executor: external, approval: required, approvalTTL: 6d}\n  d: {executor: external, approval: ''}\n  e: {executor: external, approval: required, approvalTTL: 1ms}\n  wakepoint.ask: {executor: external}\n",
		[]string{
			`3:37: tools.a.approval: must be required, not "maybe"; leave the key out for none`,
			"4:40: tools.b.approvalTTL: is for tools with approval: required",
			"5:60: tools.c.approvalTTL: must be at most the installation's maxTTL, 5d; it is 6d",
			"6:37: tools.d.approval: must not be empty; leave the key out for the default",
			"7:60: tools.e.approvalTTL: must be at least 1s, it is 1ms",
			"8:3: tools.wakepoint.ask: must not begin with wakepoint., which is for what is built in",
		},
	},
}
