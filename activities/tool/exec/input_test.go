package exec_test

import (
	"encoding/json"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
)

// args is a script that shows its arguments, one a line between brackets.
const args = `for a in "$@"; do printf '[%s]\n' "$a"; done`

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		argv  []string
		input string
		want  []string
	}{
		"string":              {[]string{"${input.name}"}, `{"name":"value"}`, []string{"value"}},
		"number as written":   {[]string{"${input.n}"}, `{"n":1.50e3}`, []string{"1.50e3"}},
		"large number":        {[]string{"${input.n}"}, `{"n":12345678901234567890}`, []string{"12345678901234567890"}},
		"boolean":             {[]string{"--x=${input.b}"}, `{"b":true}`, []string{"--x=true"}},
		"field of a field":    {[]string{"${input.a.b}"}, `{"a":{"b":"deep"}}`, []string{"deep"}},
		"within an element":   {[]string{"--dir=${input.d}/x"}, `{"d":"a"}`, []string{"--dir=a/x"}},
		"two in an element":   {[]string{"${input.a}:${input.b}"}, `{"a":"1","b":"-2"}`, []string{"1:-2"}},
		"dash after a prefix": {[]string{"--n=${input.n}"}, `{"n":-5}`, []string{"--n=-5"}},
		"empty":               {[]string{"${input.a}", "x"}, `{"a":""}`, []string{"", "x"}},
		"no placeholder":      {[]string{"$input.a", "$${input.a}", "{input.a}", "$", "$$"}, `{"a":1}`, []string{"$input.a", "${input.a}", "{input.a}", "$", "$$"}},
		"no second round":     {[]string{"${input.a}"}, `{"a":"${input.b}","b":"secret"}`, []string{"${input.b}"}},
		// None of these is ever anything but one argument.
		"spaces":          {[]string{"${input.a}"}, `{"a":"a b  c"}`, []string{"a b  c"}},
		"shell":           {[]string{"${input.a}"}, `{"a":"; touch /tmp/pwned; $(id) ` + "`id`" + ` && || > < * ? ~ 'q' \"q\" \\"}`, []string{"; touch /tmp/pwned; $(id) `id` && || > < * ? ~ 'q' \"q\" \\"}},
		"a line feed":     {[]string{"x${input.a}"}, `{"a":"1\n2"}`, []string{"x1\n2"}},
		"other languages": {[]string{"${input.a}"}, `{"a":"日本 é"}`, []string{"日本 é"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.script(args, tc.argv...)
			req := request("k")
			req.Input = json.RawMessage(tc.input)
			want := ""
			for _, w := range tc.want {
				want += "[" + w + "]\n"
			}
			if diff := cmp.Diff(want, b.result(settled(t, e, submit(t, e, req)))); diff != "" {
				t.Errorf("arguments differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInputThatCannotFillAPlaceholder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, tc := range map[string]struct {
		argv, input, says string
	}{
		"an option":             {"${input.a}", `{"a":"--exec=id"}`, "input.a must not begin with '-'"},
		"a dash":                {"${input.a}", `{"a":"-"}`, "input.a must not begin with '-'"},
		"a negative number":     {"${input.a}", `{"a":-1}`, "input.a must not begin with '-'"},
		"an option in halves":   {"${input.a}${input.b}", `{"a":"","b":"-x"}`, "input.a must not be empty"},
		"missing":               {"${input.a}", `{"b":1}`, "input.a is not there"},
		"missing in a field":    {"${input.a.b}", `{"a":1}`, "input.a.b is not there"},
		"null":                  {"${input.a}", `{"a":null}`, "input.a must be a string, a number or a boolean"},
		"an object":             {"${input.a}", `{"a":{}}`, "input.a must be a string, a number or a boolean"},
		"a list":                {"${input.a}", `{"a":["x","y"]}`, "input.a must be a string, a number or a boolean"},
		"no object":             {"${input.a}", `[1]`, "input.a is not there"},
		"no input":              {"${input.a}", ``, "input.a is not there"},
		"a zero byte":           {"x${input.a}", `{"a":"a\u0000b"}`, "input.a must not contain a zero byte"},
		"longer than it can be": {"x${input.a}", `{"a":"` + strings.Repeat("x", 64<<10) + `"}`, "input.a makes an argument of more than 65536 bytes"},
	} {
		e := b.script(note("ran"), tc.argv)
		req := request("k " + name)
		req.Input = json.RawMessage(tc.input)
		_, err := e.Submit(t.Context(), req)
		f := wantNotStarted(t, err, exec.CodeInvalidInput, false)
		if f.Message != tc.says || f.Class != tool.ClassUser {
			t.Errorf("%s: failure = %s, want %q", name, dump(f), tc.says)
		}
		if _, found, err := e.Find(t.Context(), req.SubmissionKey); found || err != nil {
			t.Errorf("%s: find = %v, %v", name, found, err)
		}
	}
	if got := b.notes(); len(got) != 0 {
		t.Errorf("something ran: %q", got)
	}
}

func TestRequestsThatBreakARule(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(note("ran"))
	for says, change := range map[string]func(*tool.Request){
		"submissionKey must not be blank":     func(r *tool.Request) { r.SubmissionKey = " \t" },
		"submissionKey must have at most 512": func(r *tool.Request) { r.SubmissionKey = strings.Repeat("k", 513) },
		"no control characters":               func(r *tool.Request) { r.SubmissionKey = "a\x00b" },
		"tenant must not be empty":            func(r *tool.Request) { r.Tenant = "" },
		"taskId must not be empty":            func(r *tool.Request) { r.TaskID = "a\nb" },
		"attempt must be 1 or more":           func(r *tool.Request) { r.Attempt = 0 },
		"deadlineAtMs must not be negative":   func(r *tool.Request) { r.DeadlineAtMs = -1 },
		"input must have at most":             func(r *tool.Request) { r.Input = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`) },
		"input must be JSON":                  func(r *tool.Request) { r.Input = json.RawMessage(`{"a":`) },
	} {
		req := request("k")
		change(&req)
		_, err := e.Submit(t.Context(), req)
		if f := wantNotStarted(t, err, exec.CodeInvalidRequest, false); !strings.Contains(f.Message, says) {
			t.Errorf("failure %q does not say %q", f.Message, says)
		}
	}
	if got := b.notes(); len(got) != 0 {
		t.Errorf("something ran: %q", got)
	}
}

func TestKeyOfAnotherJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(note("ran"))
	other := b.config(note("ran"))
	other.Name = "other"
	h := submit(t, e, request("k"))
	settled(t, e, h)
	for differs, tc := range map[string]struct {
		e      *exec.Executor
		change func(*tool.Request)
	}{
		"tenant": {e, func(r *tool.Request) { r.Tenant = "evil" }},
		"task":   {e, func(r *tool.Request) { r.TaskID = "task_2" }},
		"input":  {e, func(r *tool.Request) { r.Input = json.RawMessage(`{"name":"other"}`) }},
		"tool":   {b.executor(other), func(*tool.Request) {}},
	} {
		req := request("k")
		tc.change(&req)
		_, err := tc.e.Submit(t.Context(), req)
		if f := wantNotStarted(t, err, exec.CodeKeyReused, false); !strings.Contains(f.Message, differs) {
			t.Errorf("failure %q does not name the %s", f.Message, differs)
		}
	}
	spelled := request("k") // the same input, spelled otherwise
	spelled.Input = json.RawMessage(`{ "na\u006de" : "value" }`)
	if again := submit(t, e, spelled); again.ID != h.ID {
		t.Errorf("handle = %s, want %s", again.ID, h.ID)
	}
	if got := b.notes(); !cmp.Equal(got, []string{"ran"}) {
		t.Errorf("notes = %q, want one run", got)
	}
}

// Setenv rules out t.Parallel.
func TestEnvironmentDoesNotLeak(t *testing.T) {
	for name, value := range map[string]string{
		"SECRET_TOKEN": "hunter2", "AWS_SECRET_ACCESS_KEY": "hunter2", "WAKEPOINT_API_KEY": "hunter2",
		"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": "/home/somebody", "TMPDIR": t.TempDir(), "TZ": "UTC", "EXTRA": "given",
	} {
		t.Setenv(name, value)
	}
	always := []string{"PWD", "WAKEPOINT_ATTEMPT", "WAKEPOINT_INPUT", "WAKEPOINT_RESULT", "WAKEPOINT_RUN_TOKEN", "WAKEPOINT_SUBMISSION_KEY", "WAKEPOINT_TASK_ID"}
	for name, tc := range map[string]struct {
		env  []string
		want []string
	}{
		"default": {nil, []string{"GATE", "HOME", "JOURNAL", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ"}},
		"none":    {[]string{}, []string{"GATE", "JOURNAL"}},
		"listed":  {[]string{"EXTRA", "NOT_SET", "TZ"}, []string{"EXTRA", "GATE", "JOURNAL", "TZ"}},
	} {
		b := setup(t)
		cfg := b.config("")
		cfg.Argv = []string{"/usr/bin/env", "-0"}
		cfg.Env = tc.env
		e := b.executor(cfg)
		h := submit(t, e, request("k"))
		out := b.result(settled(t, e, h))
		var got []string
		values := map[string]string{}
		for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
			key, value, _ := strings.Cut(entry, "=")
			got = append(got, key)
			values[key] = value
		}
		slices.Sort(got)
		want := append(slices.Clone(tc.want), always...)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: names differ (-want +got):\n%s", name, diff)
		}
		if strings.Contains(out, "hunter2") {
			t.Errorf("%s: a secret leaked", name)
		}
		if values["WAKEPOINT_TASK_ID"] != "task_1" || values["WAKEPOINT_ATTEMPT"] != "1" || values["WAKEPOINT_SUBMISSION_KEY"] != "k" {
			t.Errorf("%s: values = %v", name, values)
		}
		dir := exec.RunDir(e, h.ID)
		if values["WAKEPOINT_INPUT"] != filepath.Join(dir, "input.json") || values["WAKEPOINT_RESULT"] != filepath.Join(dir, "result") || values["PWD"] != filepath.Join(dir, "work") {
			t.Errorf("%s: paths = %v", name, values)
		}
	}
}

// What the operator sets for a tool, a password perhaps, is in the tool's environment and in no
// file of the run.
func TestSetEnvTouchesNoDisk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.config(`test -n "$PASSWORD" && echo fine`)
	cfg.SetEnv["PASSWORD"] = "hunter2"
	e := b.executor(cfg)
	if got := b.result(settled(t, e, submit(t, e, request("k")))); got != "fine\n" {
		t.Errorf("result = %q", got)
	}
	err := filepath.WalkDir(b.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "hunter2") {
			t.Errorf("%s has the password", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWorkingDirectory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.config(`pwd -P; ls -A`)
	cfg.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(cfg.Dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := b.executor(cfg)
	if got, want := b.result(settled(t, e, submit(t, e, request("k")))), cfg.Dir+"\nfile\n"; got != want {
		t.Errorf("result = %q, want %q", got, want)
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for says, change := range map[string]func(*exec.Config){
		`name must not be blank`:                                                func(c *exec.Config) { c.Name = " " },
		`argv must begin with a program`:                                        func(c *exec.Config) { c.Argv = nil },
		`program "no-such-program" was not found`:                               func(c *exec.Config) { c.Argv = []string{"no-such-program"} },
		`program "/etc/passwd" was not found or is not`:                         func(c *exec.Config) { c.Argv = []string{"/etc/passwd"} },
		`argv[0] "${input.a}": the program must not`:                            func(c *exec.Config) { c.Argv = []string{"${input.a}"} },
		`argv[1] "${input.a": a placeholder is not`:                             func(c *exec.Config) { c.Argv = []string{"echo", "${input.a"} },
		`${HOME} must be ${input.<field>}; write $${ for the text ${`:           func(c *exec.Config) { c.Argv = []string{"echo", "${HOME}"} },
		`${input.} must be ${input.<field>}`:                                    func(c *exec.Config) { c.Argv = []string{"echo", "${input.}"} },
		`${input.a..b} must be ${input.<field>}`:                                func(c *exec.Config) { c.Argv = []string{"echo", "${input.a..b}"} },
		`argv[1] must not contain a zero byte`:                                  func(c *exec.Config) { c.Argv = []string{"echo", "a\x00"} },
		`argv[2] "echo ${input.a}": a placeholder in what /bin/sh runs as code`: func(c *exec.Config) { c.Argv = []string{"/bin/sh", "-c", "echo ${input.a}"} },
		`argv[2] "x ${input.a}": a placeholder in what sh runs as code`:         func(c *exec.Config) { c.Argv = []string{"sh", "-ec", "x ${input.a}"} },
		`argv[1] "-c${input.a}": a placeholder in what sh runs as code`:         func(c *exec.Config) { c.Argv = []string{"sh", "-c${input.a}"} },
		`dir "work" must be absolute`:                                           func(c *exec.Config) { c.Dir = "work" },
		`dir "/nonexistent" must be a folder that exists`:                       func(c *exec.Config) { c.Dir = "/nonexistent" },
		`env name "A=B" must not be empty or contain '='`:                       func(c *exec.Config) { c.Env = []string{"A=B"} },
		`env name "WAKEPOINT_X" must not begin with`:                            func(c *exec.Config) { c.SetEnv = map[string]string{"WAKEPOINT_X": ""} },
		`setEnv A must not contain a zero byte`:                                 func(c *exec.Config) { c.SetEnv = map[string]string{"A": "\x00"} },
		`maxOutputBytes 100 must be at least 4096`:                              func(c *exec.Config) { c.MaxOutputBytes = 100 },
		`onOutputLimit "explode" must be`:                                       func(c *exec.Config) { c.OnOutputLimit = "explode" },
		`maxResultBytes -1 must not be negative`:                                func(c *exec.Config) { c.MaxResultBytes = -1 },
		`resultContentType "a b" must be a media type`:                          func(c *exec.Config) { c.ResultContentType = "a b" },
		`killGrace -1ns must not be negative`:                                   func(c *exec.Config) { c.KillGrace = -1 },
		`ackTimeout -1ns must not be negative`:                                  func(c *exec.Config) { c.AckTimeout = -1 },
		`dataDir "data" must be absolute`:                                       func(c *exec.Config) { c.DataDir = "data" },
		`store must be set`:                                                     func(c *exec.Config) { c.Store = nil },
		`supervisorArgv must begin with the absolute path`:                      func(c *exec.Config) { c.SupervisorArgv = []string{"wakepoint"} },
		`dataDir: mkdir /dev/null`:                                              func(c *exec.Config) { c.DataDir = "/dev/null" },
	} {
		cfg := b.config("")
		cfg.Store = b.store
		change(&cfg)
		_, err := exec.New(cfg)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "exec tool ") {
			t.Errorf("error = %v, want one with %q", err, says)
		}
	}
}

// A placeholder after the script is the way to hand a value to a shell.
func TestPlaceholderBesideAScriptIsAllowed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, argv := range [][]string{
		{"/bin/sh", "-c", `echo "$1"`, "sh", "${input.name}"},
		{"grep", "-e", "${input.name}"},
		{"/bin/sh", "script.sh", "${input.name}"},
	} {
		cfg := b.config("")
		cfg.Argv, cfg.Store = argv, b.store
		if _, err := exec.New(cfg); err != nil {
			t.Errorf("%q: %v", argv, err)
		}
	}
}

func TestSupervisorIsNotStartedByHand(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{nil, {"a", "b"}} {
		cmd := osexec.CommandContext(t.Context(), self, append([]string{superviseCommand}, argv...)...)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "not by hand") {
			t.Errorf("supervisor %q: %v, %q; want exit status 2 and why", argv, err, out)
		}
	}
}
