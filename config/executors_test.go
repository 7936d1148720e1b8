package config_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/config"
)

const executors = `
resultTTL: 2d
tools:
  render:
    effects: unsafe
    maxConcurrent: 4
    rate: 1.5/m
    cache: {ttl: 1d}
    compensate: unrender
    http:
      url: http://lan.example.com/jobs?team=a
      allowHTTP: true
      headers:
        Authorization: {env: RENDER_TOKEN, prefix: "Bearer "}
        X-Signature: {file: keys/render}
        X-Team: a
      keyHeader: X-Key
      idempotent: true
      timeout: 45s
      find: {url: "https://lan.example.com/jobs?key={key}", sure: true}
      status: {url: "https://lan.example.com/jobs/{id}"}
      cancel: {url: "https://lan.example.com/jobs/{id}/stop", method: POST}
      list: {url: https://lan.example.com/jobs}
      callback: true
      fields: {id: /job/id, state: /a~1b, progress: /p, stage: /s, result: /out/0, resultURL: /out/1, startedAt: /t/0, endedAt: /t/1, error: /why, key: /k, jobs: /items, next: /links/next}
      states: {running: [busy], succeeded: [ok], failed: [bad], cancelled: [gone]}
      maxResult: 1MiB
  unrender:
    http: {url: https://lan.example.com/undo, cancel: {none: true}}
  count:
    activity: {type: Count, taskQueue: typescript, startToClose: 5m, heartbeat: 20s, args: spread}
  crawl:
    workflow: {type: crawl, taskQueue: typescript, progressQuery: progress}
  plan:
    rate: 10/s
    go: {function: plan}
`

func TestParseReadsEveryExecutor(t *testing.T) {
	t.Parallel()
	c := parse(t, executors)
	got := make(map[string]any)
	for _, tool := range c.Tools {
		sections := map[string]any{config.ExecutorActivity: tool.Activity, config.ExecutorHTTP: tool.HTTP, config.ExecutorWorkflow: tool.Workflow, config.ExecutorGo: tool.Go}
		got[tool.Name] = sections[tool.Executor]
		if tool.Policy.ExpectsCallback != (tool.Name == "render") {
			t.Errorf("%s expects a callback: %v", tool.Name, tool.Policy.ExpectsCallback)
		}
	}
	want := map[string]any{
		"render": &config.HTTPTool{
			URL: "http://lan.example.com/jobs?team=a", AllowHTTP: true, KeyHeader: "X-Key", Idempotent: true, Timeout: 45 * time.Second,
			Headers: []config.Header{
				{Name: "Authorization", Secret: config.SecretRef{Env: "RENDER_TOKEN"}, Prefix: "Bearer "},
				{Name: "X-Signature", Secret: config.SecretRef{File: "/etc/wakepoint/keys/render"}},
				{Name: "X-Team", Value: "a"},
			},
			FindURL: "https://lan.example.com/jobs?key={key}", FindSure: true, StatusURL: "https://lan.example.com/jobs/{id}",
			CancelURL: "https://lan.example.com/jobs/{id}/stop", CancelMethod: "POST", ListURL: "https://lan.example.com/jobs", Callback: true,
			Fields: config.HTTPFields{
				ID: "/job/id", State: "/a~1b", Progress: "/p", Stage: "/s", Result: "/out/0", ResultURL: "/out/1", StartedAt: "/t/0", EndedAt: "/t/1", Error: "/why", Key: "/k", Jobs: "/items", Next: "/links/next",
			},
			States:         config.HTTPStates{Running: []string{"busy"}, Succeeded: []string{"ok"}, Failed: []string{"bad"}, Cancelled: []string{"gone"}},
			MaxResultBytes: 1 << 20,
		},
		"unrender": &config.HTTPTool{
			URL: "https://lan.example.com/undo", KeyHeader: "Idempotency-Key", Timeout: 30 * time.Second, NoCancel: true,
			Fields: config.HTTPFields{
				ID: "/id", State: "/state", Progress: "/progress", Stage: "/stage", Result: "/result", ResultURL: "/resultURL", StartedAt: "/startedAt", EndedAt: "/endedAt", Error: "/error", Key: "/key", Jobs: "/jobs", Next: "/next",
			},
			States: config.HTTPStates{
				Running: []string{"running", "queued", "pending", "in_progress"}, Succeeded: []string{"succeeded", "success", "completed", "done"},
				Failed: []string{"failed", "error"}, Cancelled: []string{"cancelled", "canceled"},
			},
		},
		"count": &config.ActivityTool{Type: "Count", TaskQueue: "typescript", StartToClose: 5 * time.Minute, Heartbeat: 20 * time.Second, Args: config.ArgsSpread},
		"crawl": &config.WorkflowTool{Type: "crawl", TaskQueue: "typescript", ProgressQuery: "progress", Args: config.ArgsOne},
		"plan":  &config.GoTool{Function: "plan", Heartbeat: 30 * time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	render, _ := c.Tool("render")
	if render.MaxConcurrent != 4 || render.Rate != (config.Rate{Limit: 1.5, Per: time.Minute}) || render.Cache.TTL != 24*time.Hour || render.Compensate != "unrender" {
		t.Errorf("the limits are %+v", render)
	}
	if got := render.Rate.PerSecond(); got != 0.025 {
		t.Errorf("1.5/m is %v a second", got)
	}
}

// What is shown of a tool tells nothing of the service behind it.
func TestToolAsJSONLeavesTheServiceOut(t *testing.T) {
	t.Parallel()
	tool, _ := parse(t, executors).Tool("render")
	b, err := json.Marshal(tool)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"lan.example.com", "RENDER_TOKEN", "Bearer", "X-Team", "keys"} {
		if strings.Contains(string(b), secret) {
			t.Errorf("%s is in %s", secret, b)
		}
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"executor": "http", "maxConcurrent": 4.0, "rate": "1.5/m", "cacheTtlMs": 86_400_000.0, "compensate": "unrender"} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
}

// A configuration that is built in Go keeps its sections as they were.
func TestNewCopiesSections(t *testing.T) {
	t.Parallel()
	given := config.HTTPTool{URL: "https://x.example", Headers: []config.Header{{Name: "A", Secret: config.SecretRef{File: "a"}}}}
	c, err := config.New(config.Config{Dir: "/etc", Tools: []config.Tool{{Name: "a", HTTP: &given}, {Name: "b", Go: &config.GoTool{Function: "f"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if given.Timeout != 0 || given.Headers[0].Secret.File != "a" {
		t.Errorf("the argument was changed: %+v", given)
	}
	if c.Tools[0].Executor != "http" || c.Tools[0].HTTP.Headers[0].Secret.File != "/etc/a" || c.Tools[1].Executor != "go" {
		t.Errorf("got %+v", c.Tools)
	}
}

var executorMistakes = map[string]mistake{
	"one executor": {
		"tools:\n  a: {exec: {argv: [x]}, http: {url: 'https://x.example'}}\n  b: {executor: http}\n  c: {executor: go, workflow: {type: T, taskQueue: q}}\n  d: {http: }\n  e: {executor: external, activity: {type: T, taskQueue: q}}\n",
		[]string{
			"2:3: tools.a: must have one of the sections exec, http: they are executors, and a tool has one",
			"3:3: tools.b.http: must be given for executor http: the service to ask",
			`4:21: tools.c.workflow: belongs to executor workflow, this one is "go"`,
			"5:13: tools.d.http.url: must be given: where jobs are submitted",
			`6:27: tools.e.activity: belongs to executor activity, this one is "external"`,
		},
	},
	"services": {
		`tools:
  a: {http: {url: 'https://u:p@x.example', find: {sure: true}, timeout: 51s, cancel: {none: true, method: POST}, nothing: 1}}
  b: {http: {url: 'http://x.example/{id}', find: {url: 'https://x.example'}, status: {url: 'https://x.example/{key}'}, cancel: {url: 'https://{id}.example', method: GET}, list: {url: ftp://x.example}}}
  c: {http: {url: 'http://x.example', maxResult: 0, cancel: {none: true, url: 'https://x.example/{id}'}}}
  d: {http: {url: 'http://localhost:1/', fields: {id: id, state: '', error: /a~2, next: {a: 1}}, states: {running: [Done, busy], failed: [BUSY, ' '], cancelled: [x, X]}}}
`,
		[]string{
			"2:19: tools.a.http.url: must not hold a user or a password; use secret",
			"2:44: tools.a.http.find.url: must be given",
			"2:57: tools.a.http.find.sure: needs find.url: it says what the answer of that is worth",
			"2:73: tools.a.http.timeout: must be at most 50s, it is 51s",
			"2:93: tools.a.http.cancel.none: contradicts cancel.method",
			"2:114: tools.a.http.nothing: is not a known key; known are url, allowHTTP, headers, keyHeader, idempotent, timeout, find, status, cancel, list, callback, fields, states, maxResult",
			"3:19: tools.b.http.url: must have no placeholders; write { as %7B",
			"3:56: tools.b.http.find.url: must hold {key}, which stands for the job's key",
			"3:92: tools.b.http.status.url: must have no placeholder but {id}; write { as %7B",
			"3:134: tools.b.http.cancel.url: must be a URL",
			`3:166: tools.b.http.cancel.method: must be DELETE, POST, PUT or PATCH, not "GET"`,
			"3:184: tools.b.http.list.url: must be an https:// URL with a host",
			"4:19: tools.c.http.url: must be https, or http to this host itself; allowHTTP: true allows it elsewhere",
			"4:50: tools.c.http.maxResult: must be more than 0",
			"4:68: tools.c.http.cancel.none: contradicts cancel.url",
			`5:55: tools.d.http.fields.id: must be a JSON pointer such as /job/state (RFC 6901), not "id"`,
			"5:66: tools.d.http.fields.state: must not be empty: the whole document cannot be meant",
			`5:77: tools.d.http.fields.error: must have ~0 for a tilde and ~1 for a slash in a name (RFC 6901), not "/a~2"`,
			"5:83: tools.d.http.fields.next: must be text, not a mapping",
			`5:117: tools.d.http.states.running[0]: means succeeded already: "Done"`,
			`5:139: tools.d.http.states.failed[0]: means running already: "BUSY"`,
			"5:145: tools.d.http.states.failed[1]: must not be blank",
			`5:166: tools.d.http.states.cancelled[1]: is there twice: "X"`,
		},
	},
	"headers": {
		`tools:
  a:
    http:
      url: https://x.example
      keyHeader: Authorization
      headers: {Host: x, WAKEPOINT-Task: y, 'a b': x, X-A: 1, x-a: 2, Cookie: c, Authorization: {env: TOKEN, file: t}}
  b: {http: {url: 'https://x.example', headers: {idempotency-key: x, X: "a\nb", Y: {prefix: 'Bearer '}, Z: , V: {}, W: {env: A, other: x}}}}
`,
		[]string{
			"5:18: tools.a.http.keyHeader: must be the name of a header that can carry the key",
			"6:23: tools.a.http.headers.Host: is set by the executor",
			"6:42: tools.a.http.headers.WAKEPOINT-Task: is set by the executor",
			"6:52: tools.a.http.headers.a b: must be the name of a header",
			"6:68: tools.a.http.headers.x-a: is there twice; case does not count",
			"6:79: tools.a.http.headers.Cookie: must name where its value is, by {env: NAME} or {file: PATH}; the secret itself does not belong here",
			"6:82: tools.a.http.headers.Authorization: is the keyHeader, which carries the key",
			"6:82: tools.a.http.headers.Authorization: must name either env or file, not both",
			"7:67: tools.b.http.headers.idempotency-key: is the keyHeader, which carries the key",
			"7:73: tools.b.http.headers.X: must be one line without control characters",
			"7:81: tools.b.http.headers.Y: must be a value, or name where it is by env or file",
			"7:108: tools.b.http.headers.Z: must be a value, or name where it is by {env: NAME} or {file: PATH}",
			"7:110: tools.b.http.headers.V: must be a value, or name where it is by env or file",
			"7:129: tools.b.http.headers.W: must have no other keys than env, file, prefix",
		},
	},
	"other workers": {
		`tools:
  a: {activity: {heartbeat: 1ms, startToClose: 1ms, args: two}}
  b: {taskQueue: own, activity: {type: T, taskQueue: wakepoint}}
  c: {workflow: {type: ' ', taskQueue: own}}
  d: {rate: 1/s, workflow: {type: T, taskQueue: wakepoint-tool-d}}
  e: {taskQueue: wakepoint-tool-d, executor: external}
  f: {go: {heartbeat: 1ms}}
  g: {go: {function: 'a b'}}
  h-tool-x: {rate: 1/s, go: {function: f}}
  x: {rate: 1/s, taskQueue: wakepoint-tool-h, go: {function: f}}
`,
		[]string{
			"2:7: tools.a.activity.type: must be given: the type under which the other worker registers it",
			"2:7: tools.a.activity.taskQueue: must be given: where the other worker works",
			"2:29: tools.a.activity.heartbeat: must be at least 1s, it is 1ms",
			"2:48: tools.a.activity.startToClose: must be at least 1s, it is 1ms",
			`2:59: tools.a.activity.args: must be one or spread, not "two"`,
			`3:54: tools.b.activity.taskQueue: must be that of the worker that knows the type; "wakepoint" is the installation's own, whose workers do not`,
			"4:24: tools.c.workflow.type: must be given: the type under which the other worker registers it",
			`4:40: tools.c.workflow.taskQueue: must be that of the worker that knows the type; "own" is that of tool b, whose workers do not`,
			`5:49: tools.d.workflow.taskQueue: must be that of the worker that knows the type; "wakepoint-tool-d" is that of tool e, whose workers do not`,
			"6:18: tools.e.taskQueue: must not be the one that the limits of tool d need for themselves",
			"7:7: tools.f.go.function: must be given: the name under which the worker's program registers it",
			"7:23: tools.f.go.heartbeat: must be at least 1s, it is 1ms",
			"8:22: tools.g.go.function: must consist of letters, digits, dot, underscore and hyphen",
			"10:3: tools.x: has limits on the task queue wakepoint-tool-h-tool-x, as tool h-tool-x has; name one of them or its taskQueue otherwise",
		},
	},
	"limits": {
		`fairnessWeight: 1001
sweep: {every: 30s}
tools:
  a: {executor: external, maxConcurrent: 3, rate: 5/h, cache: {}}
  b: {go: {function: f}, maxConcurrent: 10001, rate: 5/d, cache: {ttl: 4d}}
  c: {go: {function: f}, maxConcurrent: 0, rate: 0/s, cache: {ttl: 10ms}}
  d: {go: {function: f}, rate: -1/s}
  e: {go: {function: f}, rate: 1000000/s}
`,
		[]string{
			"1:17: fairnessWeight: must be 0.001 to 1000, it is 1001",
			"2:16: sweep.every: must be at least 1m, it is 30s",
			"4:42: tools.a.maxConcurrent: is for tools whose jobs we submit; the work of an external one begins outside",
			"4:51: tools.a.rate: is for tools whose jobs we submit; the work of an external one begins outside",
			"4:56: tools.a.cache.ttl: must be given: how long a result serves equal calls",
			"5:41: tools.b.maxConcurrent: must be 1 to 10000, it is 10001",
			`5:54: tools.b.rate: must be a rate such as 10/s, 100/m or 5/h, not "5/d"`,
			"5:72: tools.b.cache.ttl: must be at most resultTTL, 3d; it is 4d",
			"6:41: tools.c.maxConcurrent: must be >= 1, it is 0",
			"6:50: tools.c.rate: must be more than 0",
			"6:68: tools.c.cache.ttl: must be at least 1s, it is 10ms",
			`7:32: tools.d.rate: must be a rate such as 10/s, 100/m or 5/h, not "-1/s"`,
			"8:32: tools.e.rate: must be one a day to 100000/s",
		},
	},
	"weights":               {"fairnessWeight: 0\nsweep: 3\n", []string{"1:17: fairnessWeight: must be more than 0", "2:8: sweep: must be a mapping, not a number"}},
	"no number of a weight": {"fairnessWeight: NaN\n", []string{"1:17: fairnessWeight: must be 0.001 to 1000, it is NaN"}},
	"compensation": {
		`tools:
  a: {effects: unsafe, go: {function: f}, compensate: b}
  b: {effects: unsafe, go: {function: f}, compensate: a}
  c: {effects: unsafe, go: {function: f}, compensate: c}
  d: {effects: unsafe, go: {function: f}, compensate: e}
  e: {executor: external}
  f: {go: {function: f}, compensate: e}
  g: {effects: unsafe, go: {function: f}, compensate: undo-g}
  h: {effects: unsafe, go: {function: f}, compensate: a}
`,
		[]string{
			"2:55: tools.a.compensate: leads back to this tool; what undoes must end somewhere",
			"3:55: tools.b.compensate: leads back to this tool; what undoes must end somewhere",
			"4:55: tools.c.compensate: must name another tool: one cannot undo itself",
			`5:55: tools.d.compensate: must name a tool that is run here, "e" is external`,
			"7:38: tools.f.compensate: is for tools with effects: unsafe; others are repeated after an ambiguous loss",
			`8:55: tools.g.compensate: must name a declared tool, "undo-g" is none; known are a, b, c, d, e, f, g, h`,
		},
	},
}
