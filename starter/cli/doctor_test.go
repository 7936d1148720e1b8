package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/wakepoint/wakepoint/starter/cli"
)

// doctorBody is what doctor writes as JSON.
type doctorBody struct {
	OK                 bool
	Problems, Warnings int
	Findings           []struct{ Check, Status, What, Do string }
	Unchecked          []struct{ Check, Because string }
}

// of gives the findings of a check, as lines.
func (b doctorBody) of(check string) string {
	var lines []string
	for _, f := range b.Findings {
		if f.Check == check {
			lines = append(lines, f.Status+": "+f.What)
			if (f.Do == "") != (f.Status == "ok") {
				lines = append(lines, "what is there to do?")
			}
		}
	}
	return strings.Join(lines, "\n")
}

// world is where doctor is run.
type world struct {
	dir   string
	parts cli.Parts
	// env is added to the environment.
	env []string
}

func newWorld(t *testing.T, yaml string, c *fakeCluster) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	if yaml != "" {
		write(t, filepath.Join(w.dir, "wakepoint.yaml"), yaml)
	}
	w.parts = cli.Parts{Clock: time.Now, Dir: w.dir, Free: func(string) (uint64, error) { return 5 << 30, nil }}
	if c != nil {
		w.parts.Cluster = c
	}
	return w
}

// examine runs doctor --json.
func (w *world) examine(t *testing.T, args ...string) (doctorBody, result) {
	t.Helper()
	line := append([]string{"doctor", "--json", "--address", "engine:7233", "--host", "here"}, args...)
	got := runEnv(t, setup(t), w.parts, w.env, "", line...)
	var body doctorBody
	if err := json.Unmarshal([]byte(got.stdout), &body); err != nil {
		t.Fatalf("%v: %v", err, got)
	}
	if body.OK != (body.Problems == 0) || body.OK != (got.code == cli.ExitOK) || !body.OK && got.code != cli.ExitFailure {
		t.Errorf("%d problems, exit %d", body.Problems, got.code)
	}
	return body, got
}

// runEnv is runIn with more of an environment.
func runEnv(t *testing.T, f *fake, p cli.Parts, env []string, stdin string, args ...string) result {
	t.Helper()
	p.Tasks = f
	var stdout, stderr bytes.Buffer
	code := cli.RunWith(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr, append([]string{"USER=ada"}, env...), p)
	return result{code: code, stdout: stdout.String(), stderr: stderr.String(), calls: f.calls}
}

func TestDoctorOfAHealthyInstallation(t *testing.T) {
	t.Parallel()
	c := newCluster(time.Now)
	c.serve("a/wakepoint-host-here", "1@here", time.Minute)
	c.serve("a/wakepoint-tool-nap", "1@here", 0).RatePerSecond = 5
	c.serve("w/ts", "9@there", 0)
	c.serve("a/ts", "9@there", 0)
	c.backlog["a/wakepoint-tool-nap"] = 12
	service := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(service.Close)
	w := newWorld(t, fmt.Sprintf(`tools:
  nap: {exec: {argv: ["true"]}, rate: 5/s}
  count: {activity: {type: Count, taskQueue: ts}}
  crawl: {workflow: {type: Crawl, taskQueue: ts}}
  render: {effects: unsafe, http: {url: %q, idempotent: true}}
targets:
  ops: {url: %q}
`, service.URL, service.URL), c)
	body, got := w.examine(t)
	if !body.OK || body.Warnings > 0 || len(body.Unchecked) > 0 || got.stderr != "" || c.closed != 1 {
		t.Errorf("%v", got)
	}
	for check, want := range map[string]string{
		"configuration": "ok: 4 tools from " + filepath.Join(w.dir, "wakepoint.yaml") + ", tenant default",
		"data":          "ok: " + filepath.Join(w.dir, ".wakepoint") + " is not there yet and can be made",
		"disk":          "ok: 5.0 GiB are free at " + w.dir,
		"secrets":       "ok: is made at the first use, in " + filepath.Join(w.dir, ".wakepoint"),
		"tools":         "ok: 4 tools can be run here",
		"blobs":         "ok: " + filepath.Join(w.dir, ".wakepoint", "blobs") + " is not there yet and can be made",
		"services":      "ok: " + service.Listener.Addr().String() + " answers (tool render)",
		"targets":       "ok: " + service.Listener.Addr().String() + " answers (target ops)",
		"engine":        "ok: engine:7233 (from --address), server version 1.2.3",
		"namespace":     "ok: default is there",
		"retention":     "ok: what has ended is kept for 7d, results for at most 3d",
		"attributes":    "ok: all 5 are there",
		"standalone":    "ok: activities can run by themselves",
		"queues": `ok: workflows on wakepoint (tasks): 1 worker, 1@here
ok: activities on wakepoint (the work of tasks): 1 worker, 1@here
ok: activities on wakepoint-host-here (jobs of this host): 1 worker, 1@here
ok: activities on wakepoint-tool-nap (limits of tool nap): 1 worker, 1@here, about 12 wait
ok: activities on ts (tool count): 1 worker, 9@there
ok: workflows on ts (tool crawl): 1 worker, 9@there`,
	} {
		if got := body.of(check); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", check, got, want)
		}
	}
	if clock := body.of("clock"); !regexp.MustCompile(`^ok: the engine's clock is \S+ (ahead of|behind) this host's, give or take \S+$`).MatchString(clock) {
		t.Errorf("clock: %s", clock)
	}
	if left, err := os.ReadDir(w.dir); err != nil || len(left) != 1 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// TestDoctorTellsTheFirstCauseFirst: whoever has nothing running is told that, and not
// all that follows from it.
func TestDoctorTellsTheFirstCauseFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", nil)
	w.parts.ReachErr = errors.New(`failed reaching server: connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`)
	body, _ := w.examine(t)
	if body.Problems != 1 || body.Findings[0].Check != "engine" || !strings.HasSuffix(body.Findings[0].What, "dial tcp 127.0.0.1:1: connect: connection refused") {
		t.Errorf("%+v", body.Findings)
	}
	if body.of("configuration") != "warning: there is no wakepoint.yaml here, so there are no tools" {
		t.Errorf("%+v", body.Findings)
	}
	if len(body.Unchecked) != 6 || body.Unchecked[0].Because != "no engine answers" {
		t.Errorf("%+v", body.Unchecked)
	}
	got := runEnv(t, setup(t), w.parts, nil, "", "doctor", "--address", "engine:7233")
	lines := strings.Split(got.stdout, "\n")
	if got.code != cli.ExitFailure || !strings.HasPrefix(lines[0], "problem  engine         ") || !strings.Contains(lines[1], "do: start one") ||
		!strings.HasPrefix(lines[2], "warning  configuration  ") || !strings.Contains(got.stdout, "not looked at, because no engine answers: namespace, retention, attributes, standalone, clock, queues\n") {
		t.Errorf("%v", got)
	}
	if got.stderr != "1 problem and 1 warning; begin with the first\n" {
		t.Errorf("%v", got)
	}
}

func TestDoctorOfABrokenConfiguration(t *testing.T) {
	t.Parallel()
	c := newCluster(time.Now)
	w := newWorld(t, "tools:\n  a: {exec: {argv: [x]}, ttll: 3s}\n  b: {}\n", c)
	body, _ := w.examine(t)
	file := filepath.Join(w.dir, "wakepoint.yaml")
	if got, want := body.of("configuration"), "problem: "+file+":2:26: tools.a.ttll: is not a known key; did you mean ttl?\nproblem: "+file+":3:3: tools.b.executor: must be given"; !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
	// What does not need it is looked at all the same.
	for _, check := range []string{"engine", "namespace", "retention", "attributes", "standalone", "clock", "data", "disk"} {
		if !strings.HasPrefix(body.of(check), "ok: ") {
			t.Errorf("%s: %q", check, body.of(check))
		}
	}
	if len(body.Unchecked) != 6 {
		t.Errorf("%+v", body.Unchecked)
	}
	if body, _ := w.examine(t, "--config", "none.yaml"); !strings.HasPrefix(body.of("configuration"), "problem: there is no file ") {
		t.Errorf("%s", body.of("configuration"))
	}
}

func TestDoctorOnThisHost(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	unknown := httptest.NewUnstartedServer(http.NotFoundHandler())
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	unknown.StartTLS()
	t.Cleanup(unknown.Close)
	w := newWorld(t, fmt.Sprintf(`secret: {env: OURS}
tools:
  gone: {exec: {argv: [no-such-program-anywhere]}}
  ours: {executor: ours}
  plan: {go: {function: plan}}
  plain: {http: {headers: {Authorization: {env: TOKEN}}, url: "http://%s/x"}}
  unsafe: {effects: unsafe, http: {url: %q, find: {url: "%s?key={key}"}}}
targets:
  ops: {secret: {env: HOOK}, url: "http://%s/y"}
`, address, unknown.URL, unknown.URL, address), newCluster(time.Now))
	w.env = []string{"OURS=short"}
	w.parts.Free = func(string) (uint64, error) { return 200 << 20, nil }
	write(t, filepath.Join(w.dir, ".wakepoint"), "not a folder")
	body, _ := w.examine(t)
	file := filepath.Join(w.dir, "wakepoint.yaml")
	for check, want := range map[string]string{
		"data": "problem: " + filepath.Join(w.dir, ".wakepoint") + " is no folder",
		"disk": "warning: 200.0 MiB are free at ",
		"secrets": "problem: the installation's must have at least 16 bytes, it has 5\nproblem: " + file + ":6:28: tools.plain.http.headers.Authorization: environment variable TOKEN is not set\n" +
			"problem: " + file + ":9:9: targets.ops.secret: environment variable HOOK is not set",
		"tools": "problem: " + file + ":3:17: tools.gone.exec.argv: program ",
		"services": "problem: " + address + " does not answer (tool plain): connect: connection refused\nproblem: " + unknown.Listener.Addr().String() +
			" does not answer (tool unsafe): ",
		"targets": "warning: " + address + " does not answer (target ops): connect: connection refused",
	} {
		if got := body.of(check); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", check, got, want)
		}
	}
	tools := body.of("tools")
	for _, want := range []string{
		"warning: tool ours belongs to another program", "warning: tool plan belongs to another program",
		"warning: after a lost answer a task of tool unsafe whose job cannot be found waits for a person", "warning: after a lost answer tool plain is submitted again",
	} {
		if !strings.Contains(tools, want) {
			t.Errorf("tools:\n%s\nwithout %q", tools, want)
		}
	}
	if services := body.of("services"); !strings.Contains(services, "certificate") {
		t.Errorf("services: %s", services)
	}
	w.parts.Free = func(string) (uint64, error) { return 1 << 20, nil }
	if body, _ := w.examine(t); !strings.HasPrefix(body.of("disk"), "problem: only 1.0 MiB are free at ") {
		t.Errorf("disk: %s", body.of("disk"))
	}
	w.parts.Free = func(string) (uint64, error) { return 0, errors.New("no such call") }
	if body, _ := w.examine(t); !strings.HasPrefix(body.of("disk"), "warning: how much room there is cannot be found out: ") {
		t.Errorf("disk: %s", body.of("disk"))
	}
}

// The bug: a tool whose secret is not there was said to be one that can be run.
func TestDoctorCountsNoToolWithoutItsSecret(t *testing.T) {
	t.Parallel()
	const plain = "tools:\n  plain: {http: {idempotent: true, headers: {A: {env: ONE}, B: {env: TWO}}, url: \"http://127.0.0.1:1/x\"}}\n"
	w := newWorld(t, plain, newCluster(time.Now))
	if body, _ := w.examine(t); body.of("tools") != "" {
		t.Errorf("%s", body.of("tools"))
	}
	w = newWorld(t, plain+"  nap: {exec: {argv: [\"true\"]}}\n", newCluster(time.Now))
	if body, _ := w.examine(t); body.of("tools") != "ok: 1 tool can be run here" {
		t.Errorf("%s", body.of("tools"))
	}
}

// TestDoctorTriesTheStore: it writes, reads and removes, in a store that is there.
func TestDoctorTriesTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", newCluster(time.Now))
	blobs := filepath.Join(w.dir, ".wakepoint", "blobs")
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		t.Fatal(err)
	}
	body, _ := w.examine(t)
	if got := body.of("blobs"); got != "ok: "+blobs+" takes results and gives them back" {
		t.Errorf("%s", got)
	}
	if got := body.of("data"); got != "ok: "+filepath.Dir(blobs)+" can be written to" {
		t.Errorf("%s", got)
	}
	left, err := filepath.Glob(filepath.Join(blobs, "*", "task", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	// The URL of a store may hold what opens it.
	write(t, filepath.Join(w.dir, "wakepoint.yaml"), "blobs: nosuchstore://ann:hunter2-pass@here?token=hunter2-token\n")
	if body, _ := w.examine(t); !strings.HasPrefix(body.of("blobs"), "problem: nosuchstore://ann:xxxxx@here") || strings.Contains(body.of("blobs"), "hunter2") {
		t.Errorf("%s", body.of("blobs"))
	}
	write(t, filepath.Join(w.dir, "wakepoint.yaml"), "blobs: nosuchstore://here\n")
	if body, _ := w.examine(t); !strings.HasPrefix(body.of("blobs"), "problem: nosuchstore://here cannot be used: ") {
		t.Errorf("%s", body.of("blobs"))
	}
}

func TestDoctorOfAnEngine(t *testing.T) {
	t.Parallel()
	const tools = "resultTTL: 10d\ntools:\n  nap: {exec: {argv: [\"true\"]}, rate: 5/s, taskQueue: gpu}\n  count: {activity: {type: Count, taskQueue: ts}}\n"
	for name, tc := range map[string]struct {
		change func(c *fakeCluster)
		args   []string
		want   map[string]string
	}{
		"another kind of server": {
			change: func(c *fakeCluster) { c.errs["system"] = serviceerror.NewUnimplemented("unknown service") },
			want:   map[string]string{"engine": "problem: what answers at engine:7233 (from --address) is of no use: unknown service", "namespace": ""},
		},
		"no namespace": {
			change: func(*fakeCluster) {}, args: []string{"--namespace", "other"},
			want: map[string]string{"namespace": "problem: there is no namespace other", "queues": ""},
		},
		"no permission": {
			change: func(c *fakeCluster) {
				c.errs["namespace"] = serviceerror.NewPermissionDenied("denied", "")
			},
			want: map[string]string{"namespace": "problem: namespace default cannot be looked at: denied", "attributes": ""},
		},
		"an old engine": {
			change: func(c *fakeCluster) { c.caps = &namespace.NamespaceInfo_Capabilities{} },
			want: map[string]string{
				"namespace":  "problem: namespace default takes no updates of workflows",
				"standalone": "problem: the engine does not run activities by themselves, which count needs",
			},
		},
		"forgets early": {
			change: func(*fakeCluster) {},
			want:   map[string]string{"retention": "warning: the engine forgets what has ended after 7d, resultTTL is 10d: results outlive their tasks"},
		},
		"attributes": {
			change: func(c *fakeCluster) {
				delete(c.attributes, "WakepointTool")
				c.attributes["WakepointRun"] = enums.INDEXED_VALUE_TYPE_INT
			},
			want: map[string]string{"attributes": "problem: not of type Keyword: WakepointRun\nproblem: missing: WakepointTool"},
		},
		"attributes that are nobody's business": {
			change: func(c *fakeCluster) { c.errs["attributes"] = serviceerror.NewPermissionDenied("denied", "") },
			want:   map[string]string{"attributes": "warning: the search attributes cannot be listed: denied"},
		},
		"a clock that is off": {
			change: func(c *fakeCluster) { c.clock = func() time.Time { return time.Now().Add(-30 * time.Second) } },
			want:   map[string]string{"clock": "warning: the engine's clock is 30"},
		},
		"a clock that is far off": {
			change: func(c *fakeCluster) { c.clock = func() time.Time { return time.Now().Add(time.Hour) } },
			want:   map[string]string{"clock": "problem: the engine's clock is "},
		},
		"a clock that cannot be read": {
			change: func(c *fakeCluster) { c.errs["poll"] = serviceerror.NewPermissionDenied("denied", "") },
			want:   map[string]string{"clock": "warning: the engine's clock cannot be compared with this host's: denied"},
		},
		"workers": {
			change: func(c *fakeCluster) {
				c.pollers = nil
				c.pollers = newCluster(time.Now).pollers
				delete(c.pollers, "w/wakepoint")
				c.serve("w/wakepoint", "1@here", 4*time.Minute)
				c.serve("a/wakepoint", "0@here", 0)
				c.serve("a/gpu-tool-nap", "1@here", 0)
				c.backlog["w/wakepoint"] = 3
			},
			want: map[string]string{"queues": `problem: no worker takes workflows from task queue wakepoint (tasks) since 4m 00s ago, about 3 wait
problem: no worker takes activities from task queue gpu (tool nap)
problem: no worker takes activities from task queue ts (tool count)
warning: no worker takes activities from task queue wakepoint-host-here (jobs of this host)
warning: a worker of task queue gpu-tool-nap (limits of tool nap) asks for 100000 a second, declared are 5
ok: activities on wakepoint (the work of tasks): 2 workers, 0@here, 1@here`},
		},
		"queues that are nobody's business": {
			change: func(c *fakeCluster) { c.errs["queue"] = serviceerror.NewPermissionDenied("denied", "") },
			want:   map[string]string{"queues": "warning: task queue wakepoint cannot be looked at: denied"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(time.Now)
			tc.change(c)
			body, got := newWorld(t, tools, c).examine(t, tc.args...)
			for check, want := range tc.want {
				found := body.of(check)
				if !strings.HasPrefix(found, want) || want == "" && found != "" {
					t.Errorf("%s:\n%s\nwant\n%s\n%v", check, found, want, got.stderr)
				}
			}
		})
	}
}

// TestDoctorIsDocumented compares the page with the checks that a run names.
func TestDoctorIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, m[1])
	}
	if !slices.Equal(documented, cli.DoctorChecks()) {
		t.Errorf("documented are %v, there are %v", documented, cli.DoctorChecks())
	}
}
