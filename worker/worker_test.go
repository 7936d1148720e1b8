package worker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/gofunc"
	"github.com/wakepoint/wakepoint/activities/tool/tooltest"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/worker"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// options are those of a worker that could start, but for its engine: nothing is
// listening there.
func options(t *testing.T, tools string) worker.Options {
	t.Helper()
	dir := t.TempDir()
	cfg, err := config.Parse(filepath.Join(dir, "wakepoint.yaml"), []byte(tools))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return worker.Options{
		Temporal: c, Config: cfg, Store: s, DataDir: dir, Host: "host-1", SupervisorArgv: []string{"/bin/true"},
		Getenv: func(string) string { return "" },
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*worker.Options)
		field  string
	}{
		"sound":                {func(*worker.Options) {}, ""},
		"the host's own name":  {func(o *worker.Options) { o.Host = "" }, ""},
		"the program itself":   {func(o *worker.Options) { o.SupervisorArgv = nil }, ""},
		"no connection":        {func(o *worker.Options) { o.Temporal = nil }, "temporal"},
		"no configuration":     {func(o *worker.Options) { o.Config = nil }, "config"},
		"no store":             {func(o *worker.Options) { o.Store = nil }, "store"},
		"a relative folder":    {func(o *worker.Options) { o.DataDir = "data" }, "dataDir"},
		"a blank host":         {func(o *worker.Options) { o.Host = "  " }, "host"},
		"a long host":          {func(o *worker.Options) { o.Host = strings.Repeat("h", 129) }, "host"},
		"a stop before it was": {func(o *worker.Options) { o.StopTimeout = -time.Second }, "stopTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, "tools: {outside: {executor: external}}\n")
			tc.change(&o)
			w, err := worker.New(o)
			var invalid *domain.InvalidError
			switch {
			case tc.field == "" && (err != nil || len(w.TaskQueues()) != 2):
				t.Errorf("%v", err)
			case tc.field != "" && (!errors.As(err, &invalid) || invalid.Field != tc.field):
				t.Errorf("error = %v, want one about %s", err, tc.field)
			}
		})
	}
}

// What a tool needs is looked at before anything is started, so that a task does
// not find out in the middle.
func TestNewRefusesToolsThatCannotRun(t *testing.T) {
	t.Parallel()
	env := func(name string) string {
		return map[string]string{"BAD": "whsec_!", "GOOD": "whsec_AAEC", "LINES": "hunter2\nx"}[name]
	}
	for name, tc := range map[string]struct {
		yaml string
		with map[string]tool.Executor
		want string
	}{
		"a program that is not there":    {yaml: "tools: {gone: {exec: {argv: [no-such-program-anywhere]}}}\n", want: "no-such-program-anywhere"},
		"an executor nobody registered":  {yaml: "tools: {ours: {executor: of-ours}}\n", want: "tools.ours.executor: must be external, have a section of its own, or be one that this program registers"},
		"an executor that is nil":        {yaml: "tools: {ours: {executor: of-ours}}\n", with: map[string]tool.Executor{"of-ours": nil}, want: "tools.ours.executor"},
		"a registered executor":          {yaml: "tools: {ours: {executor: of-ours}}\n", with: map[string]tool.Executor{"of-ours": tooltest.New()}},
		"a function nobody registered":   {yaml: "tools: {plan: {go: {function: plan}}}\n", want: "tools.plan.go.function: must be one that this program registers, not \"plan\""},
		"a function that is nil":         {yaml: "tools: {plan: {go: {function: none}}}\n", want: "tools.plan.go.function"},
		"a registered function":          {yaml: "tools: {plan: {go: {function: there}}, again: {go: {function: there}}}\n"},
		"work of another worker":         {yaml: "tools: {a: {activity: {type: A, taskQueue: other}}, w: {workflow: {type: W, taskQueue: other}}}\n"},
		"a service":                      {yaml: "tools: {h: {http: {url: 'https://x.example', headers: {Authorization: {env: GOOD, prefix: 'Bearer '}}}}}\n"},
		"a header that is not set":       {yaml: "tools: {h: {http: {url: 'https://x.example', headers: {Authorization: {env: NONE}, X: {file: gone}}}}}\n", want: "tools.h.http.headers.Authorization: environment variable NONE is not set"},
		"a header of two lines":          {yaml: "tools: {h: {http: {url: 'https://x.example', headers: {Authorization: {env: LINES}}}}}\n", want: "must have a value without control characters"},
		"a secret that is not set":       {yaml: "targets: {ops: {url: 'https://x.example', secret: {env: NONE}}}\n", want: "targets.ops.secret: "},
		"a secret that is none":          {yaml: "targets: {ops: {url: 'https://x.example', secret: {env: BAD}}}\n", want: "targets.ops.secret: "},
		"a secret in a file that is not": {yaml: "targets: {ops: {url: 'https://x.example', secret: {file: gone}}}\n", want: "targets.ops.secret: "},
		"a good secret":                  {yaml: "targets: {ops: {url: 'https://x.example', secret: {env: GOOD}}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, tc.yaml)
			o.Executors, o.Getenv = tc.with, env
			o.Functions = map[string]gofunc.Func{"none": nil, "there": func(context.Context, gofunc.Call) (any, error) { return "", nil }}
			_, err := worker.New(o)
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

// Workflows run on the main queue; a job of exec is looked at on its host's own;
// a tool may name a queue, which is served once.
func TestTaskQueues(t *testing.T) {
	t.Parallel()
	const yaml = "tools:\n  a: {executor: external, taskQueue: gpu}\n  b: {executor: external, taskQueue: gpu}\n  c: {executor: external, taskQueue: q}\n  d: {executor: external}\n"
	o := options(t, yaml)
	w, err := worker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"wakepoint", "wakepoint-host-host-1", "gpu", "q"}, w.TaskQueues()); diff != "" {
		t.Error(diff)
	}
	o.TaskQueue, o.Host = "q", "host-2"
	if w, err = worker.New(o); err != nil {
		t.Fatal(err)
	}
	// Tools that name no queue were declared with the configuration's.
	if diff := cmp.Diff([]string{"q", "q-host-host-2", "gpu", "wakepoint"}, w.TaskQueues()); diff != "" {
		t.Error(diff)
	}
	w.TaskQueues()[0] = "changed"
	if w.TaskQueues()[0] != "q" {
		t.Error("the caller can change the worker's own list")
	}
}

// The limits of a tool need a queue that nothing else comes to: it has one, even if a
// host or an option takes the name, which is refused.
func TestTaskQueuesOfLimits(t *testing.T) {
	t.Parallel()
	const yaml = "tools:\n  a: {exec: {argv: [\"true\"]}, rate: 1/s}\n  b: {exec: {argv: [\"true\"]}, taskQueue: gpu, maxConcurrent: 2}\n  c: {exec: {argv: [\"true\"]}}\n"
	o := options(t, yaml)
	w, err := worker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"wakepoint", "wakepoint-host-host-1", "gpu", "wakepoint-tool-a", "gpu-tool-b"}, w.TaskQueues()); diff != "" {
		t.Error(diff)
	}
	o.TaskQueue = "gpu-tool-b"
	var invalid *domain.InvalidError
	if _, err := worker.New(o); !errors.As(err, &invalid) || invalid.Field != "taskQueue" {
		t.Errorf("a task queue that is taken: %v", err)
	}
}

// The bug: a worker whose option or host took the queue of somebody else's worker
// started, and its activities, which it does not have, failed there half of the time.
func TestTaskQueuesOfOtherWorkersAreLeftToThem(t *testing.T) {
	t.Parallel()
	o := options(t, "tools:\n  a: {activity: {type: A, taskQueue: ts}}\n  w: {workflow: {type: W, taskQueue: wakepoint-host-host-2}}\nruntimes:\n  r: {activity: {taskQueue: agents}}\n")
	if _, err := worker.New(o); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*worker.Options){
		"option":  func(o *worker.Options) { o.TaskQueue = "ts" },
		"host":    func(o *worker.Options) { o.Host = "host-2" },
		"runtime": func(o *worker.Options) { o.TaskQueue = "agents" },
	} {
		o := o
		change(&o)
		var invalid *domain.InvalidError
		if _, err := worker.New(o); !errors.As(err, &invalid) || invalid.Field != "taskQueue" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// registry keeps the names under which things are registered.
type registry struct {
	sdkworker.WorkflowRegistry
	sdkworker.ActivityRegistry
	names []string
}

func (r *registry) RegisterWorkflowWithOptions(_ any, o workflow.RegisterOptions) {
	r.names = append(r.names, o.Name)
}

func (r *registry) RegisterActivityWithOptions(_ any, o activity.RegisterOptions) {
	r.names = append(r.names, o.Name)
}

// Every workflow and activity of the contract is registered, under its name there.
func TestEverythingIsRegistered(t *testing.T) {
	t.Parallel()
	o := options(t, "tools: {outside: {executor: external}}\n")
	acts, err := activities.New(activities.Options{Blobs: o.Store, Signals: o.Temporal})
	if err != nil {
		t.Fatal(err)
	}
	r := &registry{}
	worker.RegisterWorkflows(r)
	worker.RegisterActivities(r, acts)
	src, err := os.ReadFile("../workflows/protocol/names.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\s+(?:Activity|Workflow)\w+\s+= "(.+)"$`).FindAllStringSubmatch(string(src), -1) {
		want = append(want, m[1])
	}
	if len(want) < 11 {
		t.Fatalf("found %d names", len(want))
	}
	slices.Sort(want)
	slices.Sort(r.names)
	if diff := cmp.Diff(want, r.names); diff != "" {
		t.Errorf("names (-contract +registered):\n%s", diff)
	}
}

// The queue of a limit takes what submits jobs and nothing that looks at them.
func TestSubmissionsAreRegisteredAlone(t *testing.T) {
	t.Parallel()
	o := options(t, "tools: {outside: {executor: external}}\n")
	acts, err := activities.New(activities.Options{Blobs: o.Store, Signals: o.Temporal})
	if err != nil {
		t.Fatal(err)
	}
	r := &registry{}
	worker.RegisterSubmissions(r, acts)
	if diff := cmp.Diff([]string{protocol.ActivitySubmit, protocol.ActivityRun}, r.names); diff != "" {
		t.Error(diff)
	}
}

// A worker whose engine is away says so and leaves nothing running.
func TestStartWithoutAnEngine(t *testing.T) {
	t.Parallel()
	o := options(t, "tools: {outside: {executor: external}}\n")
	w, err := worker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ctx); err == nil || !strings.Contains(err.Error(), "task queue "+protocol.DefaultTaskQueue) {
		t.Errorf("error = %v, want one that names the queue", err)
	}
}
