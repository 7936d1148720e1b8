package config_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

const whole = `
# everything that can be said
tenant: acme
taskQueue: acme-tasks
dataDir: data
secret: {env: ACME_SECRET}
blobs: file:///srv/blobs
maxTTL: 20d
resultTTL: 36h
fairnessWeight: 2.5
sweep: {every: 30m}
targets:
  ops:
    url: https://ops.example.com/hook
    askURL: https://ops.example.com/known
    secret: {file: keys/ops}
    timeout: 5s
  here:
    url: http://127.0.0.1:8080/
  plain:
    url: http://lan.example.com/
    allowHTTP: true
tools:
  vet:
    title: Vet
    description: Looks for mistakes.
    version: 1.20
    inputSchema:
      type: object
      properties:
        dir: {type: string, minLength: 1}
        level: {type: integer, maximum: 0x10}
      required: [dir]
      additionalProperties: false
    ttl: 1d12h
    maxTTL: 3d
    maxAttempts: 5
    resultTTL: 1d
    effects: none
    backoff: {initial: 2s, factor: 1.5, max: 1m30s, jitter: 0.5}
    lease: 30s
    stall: 2m
    cancelGrace: 15s
    late: {policy: record, grace: 2h}
    expected: {low: 10s, high: 2m}
    strict: true
    taskQueue: vet
    poll: 1500ms
    hostLost: 5m
    priority: 2
    targets: [ops, here]
    exec:
      argv: [go, vet, 7, true]
      dir: src
      env: []
      set: {GOFLAGS: -mod=mod}
      maxOutput: 64KiB
      maxResult: 1MiB
      onOutputLimit: fail
      killGrace: 3s
      retryExitCodes: [75]
      resultContentType: text/plain
  script:
    exec: {argv: [./run.sh]}
  train:
    executor: external
  own:
    executor: gopher
`

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("/etc/wakepoint/wakepoint.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseReadsEveryKey(t *testing.T) {
	t.Parallel()
	c := parse(t, whole)
	want := &config.Config{
		File: "/etc/wakepoint/wakepoint.yaml", Dir: "/etc/wakepoint",
		Tenant: "acme", TaskQueue: "acme-tasks", DataDir: "/etc/wakepoint/data", Secret: config.SecretRef{Env: "ACME_SECRET"},
		Blobs: "file:///srv/blobs", MaxTTL: 480 * time.Hour, ResultTTL: 36 * time.Hour, FairnessWeight: 2.5, SweepEvery: 30 * time.Minute,
		Targets: []config.Target{
			{
				Name: "ops", URL: "https://ops.example.com/hook", AskURL: "https://ops.example.com/known",
				Secret: config.SecretRef{File: "/etc/wakepoint/keys/ops"}, Timeout: 5 * time.Second,
			},
			{Name: "here", URL: "http://127.0.0.1:8080/", Timeout: 10 * time.Second},
			{Name: "plain", URL: "http://lan.example.com/", Timeout: 10 * time.Second, AllowHTTP: true},
		},
		Runs: config.Runs{
			TTL: 7 * 24 * time.Hour, CancelGrace: 2 * time.Minute, CheckEvery: time.Minute, OnFailedDependency: config.OnFailedSkip,
			Limits: run.Limits{MaxSteps: 1000, MaxCalls: 5000, MaxOpenCalls: 50},
		},
	}
	want.Tools = []config.Tool{
		{
			Name: "vet", Title: "Vet", Description: "Looks for mistakes.", Version: "1.20", Executor: "exec",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"dir":{"type":"string","minLength":1},"level":{"type":"integer","maximum":16}},"required":["dir"],"additionalProperties":false}`),
			TTL:         36 * time.Hour, MaxTTL: 72 * time.Hour, MaxAttempts: 5, ResultTTL: 24 * time.Hour,
			Policy: domain.Policy{
				Strict: true, Backoff: domain.Backoff{InitialMs: 2000, Factor: 1.5, MaxMs: 90_000, Jitter: 0.5},
				LeaseMs: 30_000, StallMs: 120_000, CancelGraceMs: 15_000, LatePolicy: domain.LateRecord, GraceMs: 7_200_000,
				Effects: domain.EffectsNone, Expected: &domain.Window{LowMs: 10_000, HighMs: 120_000},
			},
			TaskQueue: "vet", Poll: 1500 * time.Millisecond, HostLost: 5 * time.Minute, Priority: 2, Targets: []string{"ops", "here"},
			Exec: &config.ExecTool{
				Argv: []string{"go", "vet", "7", "true"}, Dir: "/etc/wakepoint/src", Env: []string{}, Set: []config.EnvVar{{Name: "GOFLAGS", Value: "-mod=mod"}},
				MaxOutputBytes: 64 << 10, MaxResultBytes: 1 << 20, OnOutputLimit: "fail", KillGrace: 3 * time.Second,
				RetryExitCodes: []int{75}, ResultContentType: "text/plain",
			},
		},
		plainTool("script", "exec", func(t *config.Tool) { t.Exec = &config.ExecTool{Argv: []string{"/etc/wakepoint/run.sh"}} }),
		plainTool("train", "external", func(t *config.Tool) { t.Policy.External = true }),
		plainTool("own", "gopher", func(*config.Tool) {}),
	}
	if diff := cmp.Diff(want, c, cmpopts.IgnoreUnexported(config.Tool{}, config.Config{})); diff != "" {
		t.Error(diff)
	}
}

// plainTool is a tool in that file that says nothing about itself.
func plainTool(name, executor string, change func(*config.Tool)) config.Tool {
	t := config.Tool{
		Name: name, Title: name, Executor: executor, TTL: time.Hour, MaxTTL: 480 * time.Hour, MaxAttempts: 3, ResultTTL: 36 * time.Hour,
		Policy:    domain.Policy{Effects: domain.EffectsIdempotent, LatePolicy: domain.LateReject},
		TaskQueue: "acme-tasks", Poll: time.Second, HostLost: 2 * time.Minute,
	}
	change(&t)
	return t
}

func TestParseOfNothingIsTheDefault(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "---\n", "\ufeff", "tools:\ntargets:\n"} {
		c := parse(t, text)
		if c.Tenant != "default" || c.TaskQueue != "wakepoint" || c.MaxTTL != 30*24*time.Hour || c.ResultTTL != 72*time.Hour || len(c.Tools) != 0 {
			t.Errorf("%q gives %+v", text, c)
		}
		if got, want := c.BlobURL(), "file:///etc/wakepoint/.wakepoint/blobs"; got != want {
			t.Errorf("blobs at %s, want %s", got, want)
		}
	}
}

// mistake is a file and what is said about it.
type mistake struct {
	text string
	want []string
}

var mistakes = map[string]mistake{
	"unknown keys": {
		"tenat: x\ntools:\n  a:\n    executor: external\n    ttlMs: 3s\n    zzz: 1\n",
		[]string{
			"1:1: tenat: is not a known key; did you mean tenant?",
			"5:5: tools.a.ttlMs: is not a known key; did you mean ttl?",
			"6:5: tools.a.zzz: is not a known key; known are title, description, version, executor, inputSchema, ttl, maxTTL, maxAttempts, resultTTL, effects, onUnknown, backoff, lease, stall, cancelGrace, late, expected, strict, taskQueue, poll, hostLost, priority, targets, maxConcurrent, rate, cache, compensate, approval, approvalTTL, exec, http, activity, workflow, go",
		},
	},
	"repeated names": {
		"tools:\n  a: {executor: external}\n  b: {executor: external, ttl: 60d}\n  a: {executor: external}\ntargets:\n  x: {url: https://x.example}\n  x: {url: https://y.example}\ntenant: a\ntenant: b\n",
		[]string{
			"3:32: tools.b.ttl: must be at most maxTTL, 30d; it is 60d",
			"4:3: tools.a: is there twice, first in line 2",
			"7:3: targets.x: is there twice, first in line 6",
			"9:1: tenant: is there twice, first in line 8",
		},
	},
	"targets": {
		"targets:\n  ops: {url: https://x.example}\n  none: {}\n  ftp: {url: ftp://x.example}\n  http: {url: http://x.example}\n  auth: {url: https://u:hunter2@x.example}\n  slow: {url: https://x.example, timeout: 26s}\n  bad name: {url: https://x.example}\ntools:\n  a: {executor: external, targets: [opps, ops, ops, other]}\n",
		[]string{
			"3:3: targets.none.url: must be given",
			"4:14: targets.ftp.url: must be an https:// URL with a host",
			"5:15: targets.http.url: must be https, or http to this host itself; allowHTTP: true allows it elsewhere",
			"6:15: targets.auth.url: must not hold a user or a password; use secret",
			"7:43: targets.slow.timeout: must be at most 25s, it is 26s",
			"8:3: targets.bad name: must consist of letters, digits, dot, underscore and hyphen",
			`10:37: tools.a.targets[0]: must name a declared target, "opps" is none; did you mean ops?`,
			`10:48: tools.a.targets[2]: is there twice: "ops"`,
			`10:53: tools.a.targets[3]: must name a declared target, "other" is none; known are ops, none, ftp, http, auth, slow, bad name`,
		},
	},
	"times": {
		"maxTTL: 2d\nresultTTL: 1s\ntools:\n  a: {executor: external, ttl: 3d, poll: 5ms, lease: 10ms, hostLost: 1us, stall: -3s, cancelGrace: 5, late: {policy: never, grace: 0s}, maxTTL: 3d}\n",
		[]string{
			"2:12: resultTTL: must be at least 1m, it is 1s",
			"4:42: tools.a.poll: must be at least 100ms, it is 5ms",
			"4:54: tools.a.lease: must be at least 1s",
			`4:70: tools.a.hostLost: must be a whole number of milliseconds, not "1us"`,
			`4:82: tools.a.stall: must not be negative, not "-3s"`,
			`4:100: tools.a.cancelGrace: must be a duration such as 30s, 5m, 72h or 3d, not "5"`,
			"4:118: tools.a.late.policy: must be reject or record, not \"never\"",
			"4:132: tools.a.late.grace: must be longer than 0",
			"4:145: tools.a.maxTTL: must be at most the installation's maxTTL, 2d; it is 3d",
		},
	},
	"numbers": {
		"tools:\n  a: {executor: external, maxAttempts: 0, priority: 6, backoff: {factor: 0.5, jitter: x, initial: 3s, max: 2s}, expected: {low: 3s, high: 2s}}\n",
		[]string{
			"2:40: tools.a.maxAttempts: must be >= 1, it is 0",
			"2:53: tools.a.priority: must be 1 (first) to 5 (last), it is 6",
			"2:74: tools.a.backoff.factor: must be a finite number >= 1, it is 0.5",
			`2:87: tools.a.backoff.jitter: must be a number, not "x"`,
			"2:108: tools.a.backoff.max: must be at least backoff.initial",
			"2:113: tools.a.expected: must have a high that is at least low",
		},
	},
	"kinds": {
		"tools: [a]\ntargets: 3\ntaskQueue: {}\n",
		[]string{
			"1:1: tools: must be a mapping, not a list",
			"2:10: targets: must be a mapping, not a number",
			"3:1: taskQueue: must be text, not a mapping",
		},
	},
	"commands": {
		"tools:\n  a: {executor: exec}\n  b: {exec: {}}\n  c: {exec: {argv: [' ']}}\n  d: {exec: {argv: go vet}}\n  e: {executor: external, exec: {argv: [x]}}\n  f: {}\n  g: {exec: {argv: [x], env: [A=B], set: {PATH: x, 1X: y}, retryExitCodes: [0, 256, x], maxOutput: 1k, maxResult: 0, onOutputLimit: drop, resultContentType: text}}\n  h: {exec: {argv: [x], env: [HOME], set: {HOME: /}, maxOutput: 100}}\n",
		[]string{
			"2:3: tools.a.exec: must be given for executor exec: the command to run",
			"3:7: tools.b.exec.argv: must be given: the command to run and its arguments",
			"4:21: tools.c.exec.argv[0]: must name the command, it is blank",
			"5:20: tools.d.exec.argv: must be a list, not text",
			`6:27: tools.e.exec: belongs to executor exec, this one is "external"`,
			"7:3: tools.f.executor: must be given: external, the name of a registered one, or a section exec, http, activity, workflow or go",
			"8:31: tools.g.exec.env[0]: must be the name of an environment variable; values belong into set",
			"8:56: tools.g.exec.set.1X: must be the name of an environment variable",
			"8:77: tools.g.exec.retryExitCodes[0]: must be 1 to 255, it is 0",
			"8:80: tools.g.exec.retryExitCodes[1]: must be 1 to 255, it is 256",
			`8:85: tools.g.exec.retryExitCodes[2]: must be a whole number, not "x"`,
			`8:100: tools.g.exec.maxOutput: must be a size such as 4096, 64KiB, 10MiB or 1GiB, not "1k"`,
			"8:115: tools.g.exec.maxResult: must be more than 0",
			`8:133: tools.g.exec.onOutputLimit: must be truncate or fail, not "drop"`,
			"8:158: tools.g.exec.resultContentType: must be a media type such as text/plain of at most 128 bytes",
			"9:50: tools.h.exec.set.HOME: is also listed in env; the tool can get it from one of them only",
			"9:65: tools.h.exec.maxOutput: must be at least 4096 bytes, it is 100",
		},
	},
	"schemas": {
		"tools:\n  a: {executor: external, inputSchema: {type: strin}}\n  b: {executor: external, inputSchema: {$ref: 'file:///etc/passwd'}}\n  c: {executor: external, inputSchema: {$ref: 'https://example.com/s'}}\n  d: {executor: external, inputSchema: {$ref: '#/$defs/no'}}\n  e: {executor: external, inputSchema: {pattern: '('}}\n  f: {executor: external, inputSchema: 3}\n  g: {executor: external, inputSchema: {maximum: .inf}}\n  h: {executor: external, inputSchema: {a: 1, a: 2}}\n",
		[]string{
			"2:27: tools.a.inputSchema: must be a JSON Schema: schema.type value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'",
			"3:27: tools.b.inputSchema: must be a JSON Schema: a $ref must stay within the schema: nothing is loaded from files or the network, so not from \"file:///etc/passwd\"",
			"4:27: tools.c.inputSchema: must be a JSON Schema: a $ref must stay within the schema: nothing is loaded from files or the network, so not from \"https://example.com/s\"",
			"5:27: tools.d.inputSchema: must be a JSON Schema: json-pointer in \"#/$defs/no\" not found",
			"6:27: tools.e.inputSchema: must be a JSON Schema: schema.pattern '(' is not valid regex: error parsing regexp: missing closing ): `(`",
			"7:40: tools.f.inputSchema: must be a JSON Schema: schema got number, want boolean or object",
			"8:50: tools.g.inputSchema.maximum: must be a number that JSON can hold",
			"9:47: tools.h.inputSchema.a: is there twice, first in line 9",
		},
	},
	"names": {
		"tenant: ''\ntaskQueue: ' x'\nblobs: no-url\ntools:\n  '': {executor: external}\n  a: {executor: 'x y', taskQueue: /_sys/a, effects: some}\n",
		[]string{
			"1:9: tenant: must not be empty; leave the key out for the default",
			"2:12: taskQueue: must not be blank, nor begin or end with white space",
			"3:8: blobs: must be a URL such as file:///var/lib/wakepoint/blobs",
			"5:3: tools.: must not be empty",
			"6:17: tools.a.executor: must consist of letters, digits, dot, underscore and hyphen",
			"6:35: tools.a.taskQueue: must not begin with /_sys/ or __temporal_, which belong to the engine",
			`6:53: tools.a.effects: must be none, idempotent or unsafe, not "some"`,
		},
	},
	"syntax":           {"tools:\n  a:\n\tb: 1\n", []string{"3:1: is no valid YAML: found character that cannot start any token"}},
	"two documents":    {"tenant: a\n---\ntenant: b\n", []string{"2:1: must hold one YAML document"}},
	"not UTF-8":        {"tenant: a\n# caf\xe9\n", []string{"2:6: must be valid UTF-8"}},
	"a list":           {"- tools\n", []string{"1:1: must be a mapping, not a list"}},
	"merge key":        {"x: &x {executor: external}\ntools:\n  a: {<<: *x}\n", []string{"1:1: x: is not a known key; known are tenant, taskQueue, dataDir, secret, blobs, maxTTL, resultTTL, fairnessWeight, sweep, targets, tools, runs, runtimes", "3:3: tools.a.executor: must be given: external, the name of a registered one, or a section exec, http, activity, workflow or go", "3:7: tools.a: must not use merge keys (<<); an alias as a value is fine"}},
	"keys are no text": {"tools:\n  ? [a]\n  : {}\n", []string{"2:5: tools: must have plain text as keys"}},
	"itself":           {"tools:\n  a:\n    executor: external\n    inputSchema: &s {not: *s}\n", []string{"4:18: tools.a.inputSchema.not.not.not.not.not.not.not.not.not.not.not....: is too large or too deep, its aliases followed"}},
	"without end": {
		"a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\ntools: {a: {executor: external, inputSchema: {enum: [*e, *e]}}}\n",
		[]string{
			"1:1: a: is not a known key; known are tenant, taskQueue, dataDir, secret, blobs, maxTTL, resultTTL, fairnessWeight, sweep, targets, tools, runs, runtimes",
			"1:23: tools.a.inputSchema.enum[0][5][8][9][7][5]: is too large or too deep, its aliases followed",
			"2:1: b: is not a known key; known are tenant, taskQueue, dataDir, secret, blobs, maxTTL, resultTTL, fairnessWeight, sweep, targets, tools, runs, runtimes",
			"3:1: c: is not a known key; known are tenant, taskQueue, dataDir, secret, blobs, maxTTL, resultTTL, fairnessWeight, sweep, targets, tools, runs, runtimes",
			"4:1: d: is not a known key; known are tenant, taskQueue, dataDir, secret, blobs, maxTTL, resultTTL, fairnessWeight, sweep, targets, tools, runs, runtimes",
			"5:1: e: is not a known key; known are tenant, taskQueue, dataDir, secret, blobs, maxTTL, resultTTL, fairnessWeight, sweep, targets, tools, runs, runtimes",
		},
	},
	"only the line":     {"a: b: c\n", []string{"1:1: is no valid YAML: mapping values are not allowed in this context"}},
	"two secrets":       {"secret: {env: A, file: b}\n", []string{"1:1: secret: must name either env or file, not both"}},
	"deep alias":        {"tools:\n  a: &a {executor: external, ttl: 90d}\n  b: *a\n", []string{"2:35: tools.a.ttl: must be at most maxTTL, 30d; it is 90d", "2:35: tools.b.ttl: must be at most maxTTL, 30d; it is 90d"}},
	"version not alone": {"version: 1\n", []string{"1:1: version: is not a known key; known are tenant, taskQueue, dataDir, secret, blobs, maxTTL, resultTTL, fairnessWeight, sweep, targets, tools, runs, runtimes"}},
}

func TestParseReportsEveryMistakeWithItsPlace(t *testing.T) {
	t.Parallel()
	all := maps.Clone(mistakes)
	maps.Copy(all, executorMistakes)
	maps.Copy(all, runtimeMistakes)
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse("w.yaml", []byte(tc.text))
			if err == nil || c != nil {
				t.Fatalf("accepted: %+v", c)
			}
			var got []string
			for line := range strings.SplitSeq(err.Error(), "\n") {
				got = append(got, strings.TrimPrefix(strings.TrimPrefix(line, "w.yaml:"), " "))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if !errors.Is(err, config.ErrConfig) {
				t.Error("is no ErrConfig")
			}
			var one *config.Error
			if !errors.As(err, &one) || one.File != "w.yaml" || one.Line == 0 {
				t.Errorf("the first mistake is %+v", one)
			}
		})
	}
}

func TestNoErrorQuotesASecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, text := range []string{
		"secret: hunter2\n",
		"secret: {hunter2: x}\n",
		"secret: {env: 'hunter2 hunter2'}\n",
		"secret: {hunter2: a, hunter2: b}\n",
		"secret: [hunter2]\n",
		"targets: {a: {url: 'https://hunter2:x@example.com'}}\n",
		"targets: {a: {url: 'hunter2', askURL: '::hunter2', secret: hunter2}}\n",
		"blobs: hunter2\n",
		"tools: {a: {exec: {argv: [x], env: [A=hunter2], set: {'1': hunter2}}}}\n",
		"tools: {a: {exec: {argv: [x], set: {A: {b: hunter2}}}}}\n",
		"tools: {a: {http: {url: 'https://hunter2:x@example.com'}}}\n",
		"tools: {a: {http: {url: 'https://x.example/{hunter2}', headers: {Authorization: hunter2}}}}\n",
		"tools: {a: {http: {url: 'https://x.example/', headers: {A: {hunter2: x}, B: [hunter2], C: \"hunter2\\n\"}}}}\n",
		"tools: {a: {http: {url: 'https://x.example/', headers: {A: {env: 'hunter2 x', prefix: \"hunter2\\n\"}}}}}\n",
		"runtimes: {a: {push: {url: 'https://hunter2:x@example.com', secret: hunter2}}}\n",
		"runtimes: {a: {push: {url: 'hunter2', secret: {hunter2: x}}}}\n",
	} {
		_, err := config.Parse("w.yaml", []byte(text))
		switch {
		case err == nil:
			t.Errorf("accepted %q", text)
		case strings.Contains(err.Error(), secret):
			t.Errorf("%q gives %v", text, err)
		}
	}
}

// What is found out later has its place as well, or that of what it stands in.
func TestMistakeHasAPlace(t *testing.T) {
	t.Parallel()
	c := parse(t, whole)
	for key, want := range map[string]string{
		"tools.vet.exec.argv[1]": "/etc/wakepoint/wakepoint.yaml:53:18: tools.vet.exec.argv[1]: is wrong",
		"tools.train.exec":       "/etc/wakepoint/wakepoint.yaml:65:3: tools.train.exec: is wrong",
		"nothing":                "/etc/wakepoint/wakepoint.yaml:3:1: nothing: is wrong",
	} {
		if got := c.Mistake(key, "is %s", "wrong").Error(); got != want {
			t.Errorf("%s gives %s, want %s", key, got, want)
		}
	}
}

// The bug: a folder whose name is no plain URL text was another folder, or none.
func TestBlobURLOfAnOddFolder(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/a b/50%25 done?/x#y", "/ä"} {
		c, err := config.New(config.Config{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(c.BlobURL())
		if err != nil || u.Path != dir+"/blobs" || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("%s gives %s (%v)", dir, c.BlobURL(), err)
		}
	}
}

func TestLoadSaysWhereItLooked(t *testing.T) {
	t.Parallel()
	_, err := config.Load(filepath.Join(t.TempDir(), "no.yaml"))
	if err == nil || !strings.Contains(err.Error(), "no.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestNewHoldsTheRulesOfAFile(t *testing.T) {
	t.Parallel()
	tools := []config.Tool{{Name: "a", Executor: "external", TTL: 40 * 24 * time.Hour}, {Name: "a", Executor: "external", InputSchema: json.RawMessage(`{`)}}
	_, err := config.New(config.Config{Tools: tools, Targets: []config.Target{{Name: "t", URL: "x"}, {Name: "t", URL: "https://x.example"}}})
	want := []string{
		"targets.t.url: must be an https:// URL with a host",
		"targets.t: is there twice",
		"tools.a.ttl: must be at most maxTTL, 30d; it is 40d",
		"tools.a: is there twice",
		"tools.a.inputSchema: must be valid JSON",
	}
	if err == nil {
		t.Fatal("accepted")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Error(diff)
	}
	if tools[0].Title != "" {
		t.Error("the argument was changed")
	}
}

func TestBindingAndCreate(t *testing.T) {
	t.Parallel()
	c := parse(t, whole)
	tool, ok := c.Tool("vet")
	if !ok {
		t.Fatal("no vet")
	}
	if diff := cmp.Diff(protocol.ToolBinding{Executor: "exec", TaskQueue: "vet", PollMs: 1500, HostLostMs: 300_000}, tool.Binding()); diff != "" {
		t.Error(diff)
	}
	create := tool.CreateDefaults()
	create.ID, create.NowMs = "x", 1
	task, err := domain.New(create)
	if err != nil {
		t.Fatal(err)
	}
	if task.Tool != "vet" || task.ExpiresAtMs != 1+36*3_600_000 || task.MaxAttempts != 5 || task.Priority != 2 || task.ResultTTLMs != 86_400_000 {
		t.Errorf("task is %+v", task)
	}
	limited := config.Tool{
		Name: "big", Executor: "http", TaskQueue: "q", Poll: time.Second, HostLost: time.Minute,
		MaxConcurrent: 2, Rate: config.Rate{Limit: 1, Per: time.Minute}, Compensate: "undo",
	}
	want := protocol.ToolBinding{Executor: "http", TaskQueue: "q", PollMs: 1000, HostLostMs: 60_000, SubmitQueue: "q-tool-big", HoldSlot: true, Compensate: "undo"}
	if diff := cmp.Diff(want, limited.Binding()); diff != "" {
		t.Error(diff)
	}
	limited.MaxConcurrent = 0
	if b := limited.Binding(); b.HoldSlot || b.SubmitQueue != "q-tool-big" {
		t.Errorf("with a rate alone the binding is %+v", b)
	}
	if _, ok := c.Tool("nothing"); ok {
		t.Error("found nothing")
	}
	if target, ok := c.Target("here"); !ok || target.URL != "http://127.0.0.1:8080/" {
		t.Error("no target here")
	}
	if _, ok := c.Target("nowhere"); ok {
		t.Error("found nowhere")
	}
}

func TestToolAsJSONLeavesTheCommandOut(t *testing.T) {
	t.Parallel()
	tool, _ := parse(t, whole).Tool("vet")
	b, err := json.Marshal(tool)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"GOFLAGS", "argv", "/etc/wakepoint"} {
		if strings.Contains(string(b), secret) {
			t.Errorf("%s is in %s", secret, b)
		}
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"name": "vet", "executor": "exec", "ttlMs": 129_600_000.0, "maxTtlMs": 259_200_000.0, "effects": "none"} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
}
