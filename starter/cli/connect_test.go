package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/starter/cli"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
)

// running makes it look as if a wakepoint dev ran in a data folder.
func running(t *testing.T, dir, config string) dev.Info {
	t.Helper()
	s, err := dev.Start(t.Context(), dev.Options{
		DataDir: dir, Engine: dev.Engine{Kind: dev.KindOutside, Address: "127.0.0.1:4711"}, Namespace: "of-dev", Config: config,
		Dial: func(context.Context, string) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s.Info()
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const noTools = "tools: {}\n"

// TestWhereTheEngineIs checks the order in which `wakepoint help connection` says
// that engine, tools and data are looked for.
func TestWhereTheEngineIs(t *testing.T) {
	t.Parallel()
	type world struct {
		dir     string
		profile string // Temporal's configuration file
	}
	for name, c := range map[string]struct {
		args []string
		env  []string
		// prepare fills the folder; it gives the environment that depends on it.
		prepare func(t *testing.T, w world) []string
		want    func(w world) cli.Endpoint
	}{
		"nothing": {
			want: func(w world) cli.Endpoint {
				return cli.Endpoint{Address: "127.0.0.1:7233", Namespace: "default", From: "the default", DataDir: filepath.Join(w.dir, ".wakepoint"), Tenant: "default"}
			},
		},
		"flags": {
			args: []string{"--address", "a:1", "--namespace", "n", "--tenant", "acme", "--data", "d"},
			env:  []string{"TEMPORAL_ADDRESS=other:1", "TEMPORAL_NAMESPACE=other", "WAKEPOINT_DATA=other"},
			want: func(w world) cli.Endpoint {
				return cli.Endpoint{Address: "a:1", Namespace: "n", From: "--address", DataDir: filepath.Join(w.dir, "d"), Tenant: "acme"}
			},
		},
		"the environment": {
			env: []string{"TEMPORAL_ADDRESS=env:1", "TEMPORAL_NAMESPACE=ns", "TEMPORAL_API_KEY=key", "WAKEPOINT_DATA=/data", "WAKEPOINT_UI_URL=http://ui"},
			want: func(world) cli.Endpoint {
				return cli.Endpoint{Address: "env:1", Namespace: "ns", From: "the environment or the profile", DataDir: "/data", Tenant: "default", UIURL: "http://ui", TLS: true}
			},
		},
		"a running dev": {
			prepare: func(t *testing.T, w world) []string {
				running(t, filepath.Join(w.dir, ".wakepoint"), write(t, filepath.Join(w.dir, "tools", "x.yaml"), "tenant: of-dev\n"))
				return nil
			},
			want: func(w world) cli.Endpoint {
				data := filepath.Join(w.dir, ".wakepoint")
				return cli.Endpoint{
					Address: "127.0.0.1:4711", Namespace: "of-dev", From: "the wakepoint dev in " + data, DataDir: data, Tenant: "of-dev",
					Config: filepath.Join(w.dir, "tools", "x.yaml"),
				}
			},
		},
		"a running dev in a folder that is named": {
			args: []string{"--data", "d"},
			prepare: func(t *testing.T, w world) []string {
				write(t, filepath.Join(w.dir, "wakepoint.yaml"), noTools)
				running(t, filepath.Join(w.dir, "d"), write(t, filepath.Join(w.dir, "x.yaml"), noTools))
				return nil
			},
			want: func(w world) cli.Endpoint {
				return cli.Endpoint{
					Address: "127.0.0.1:4711", Namespace: "of-dev", From: "the wakepoint dev in " + filepath.Join(w.dir, "d"), DataDir: filepath.Join(w.dir, "d"), Tenant: "default",
					Config: filepath.Join(w.dir, "x.yaml"),
				}
			},
		},
		"the environment before a running dev": {
			env: []string{"TEMPORAL_ADDRESS=env:1"},
			prepare: func(t *testing.T, w world) []string {
				running(t, filepath.Join(w.dir, ".wakepoint"), "")
				return nil
			},
			want: func(w world) cli.Endpoint {
				return cli.Endpoint{Address: "env:1", Namespace: "default", From: "the environment or the profile", DataDir: filepath.Join(w.dir, ".wakepoint"), Tenant: "default"}
			},
		},
		"the default profile": {
			prepare: func(t *testing.T, w world) []string {
				write(t, w.profile, "[profile.default]\naddress = \"profile:1\"\nnamespace = \"p\"\n")
				return []string{"TEMPORAL_CONFIG_FILE=" + w.profile}
			},
			want: func(w world) cli.Endpoint {
				return cli.Endpoint{Address: "profile:1", Namespace: "p", From: "the default profile", DataDir: filepath.Join(w.dir, ".wakepoint"), Tenant: "default"}
			},
		},
		"a running dev before the default profile": {
			prepare: func(t *testing.T, w world) []string {
				write(t, w.profile, "[profile.default]\naddress = \"profile:1\"\nnamespace = \"p\"\napi_key = \"k\"\n")
				running(t, filepath.Join(w.dir, ".wakepoint"), "")
				return []string{"TEMPORAL_CONFIG_FILE=" + w.profile}
			},
			want: func(w world) cli.Endpoint {
				data := filepath.Join(w.dir, ".wakepoint")
				return cli.Endpoint{Address: "127.0.0.1:4711", Namespace: "of-dev", From: "the wakepoint dev in " + data, DataDir: data, Tenant: "default"}
			},
		},
		"a named profile before a running dev": {
			args: []string{"--profile", "prod"},
			prepare: func(t *testing.T, w world) []string {
				write(t, w.profile, "[profile.prod]\naddress = \"prod:1\"\napi_key = \"k\"\n")
				running(t, filepath.Join(w.dir, ".wakepoint"), "")
				return []string{"TEMPORAL_CONFIG_FILE=" + w.profile}
			},
			want: func(w world) cli.Endpoint {
				return cli.Endpoint{Address: "prod:1", Namespace: "default", From: "the environment or the profile", DataDir: filepath.Join(w.dir, ".wakepoint"), Tenant: "default", TLS: true}
			},
		},
		"the configuration of this folder": {
			prepare: func(t *testing.T, w world) []string {
				write(t, filepath.Join(w.dir, "wakepoint.yaml"), "dataDir: elsewhere\ntenant: acme\n")
				return nil
			},
			want: func(w world) cli.Endpoint {
				return cli.Endpoint{
					Address: "127.0.0.1:7233", Namespace: "default", From: "the default", DataDir: filepath.Join(w.dir, "elsewhere"), Tenant: "acme",
					Config: filepath.Join(w.dir, "wakepoint.yaml"),
				}
			},
		},
		"a configuration of the environment": {
			env: []string{"WAKEPOINT_CONFIG=sub/w.yaml"},
			prepare: func(t *testing.T, w world) []string {
				write(t, filepath.Join(w.dir, "wakepoint.yaml"), "tenant: here\n")
				write(t, filepath.Join(w.dir, "sub", "w.yaml"), "tenant: there\n")
				return nil
			},
			want: func(w world) cli.Endpoint {
				return cli.Endpoint{
					Address: "127.0.0.1:7233", Namespace: "default", From: "the default", DataDir: filepath.Join(w.dir, "sub", ".wakepoint"), Tenant: "there",
					Config: filepath.Join(w.dir, "sub", "w.yaml"),
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{dir: t.TempDir()}
			w.profile = filepath.Join(w.dir, "temporal.toml")
			// Without it the file of whoever runs the tests would be read.
			env := append([]string{"TEMPORAL_CONFIG_FILE=" + filepath.Join(w.dir, "none.toml")}, c.env...)
			if c.prepare != nil {
				env = append(env, c.prepare(t, w)...)
			}
			var got cli.Endpoint
			var stderr strings.Builder
			code := cli.RunWith(t.Context(), append([]string{"task", "show", "running"}, c.args...), strings.NewReader(""), &strings.Builder{}, &stderr, env,
				cli.Parts{Tasks: setup(t), Now: now, Dir: w.dir, Found: &got})
			if code != cli.ExitOK {
				t.Fatalf("exit %d: %s", code, &stderr)
			}
			if d := cmp.Diff(c.want(w), got); d != "" {
				t.Errorf("found another (-want +got):\n%s", d)
			}
		})
	}
}

// TestStackThatStartsIsWaitedFor: what runs at the default address meanwhile is
// somebody else's.
func TestStackThatStartsIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"found": nil, "named": {"--data", "d"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			data := filepath.Join(dir, ".wakepoint")
			if args != nil {
				data = filepath.Join(dir, "d")
			}
			holds, open := make(chan struct{}), make(chan struct{})
			stacks := make(chan *dev.Stack, 1)
			go func() {
				s, err := dev.Start(t.Context(), dev.Options{
					DataDir: data, Engine: dev.Engine{Kind: dev.KindOutside, Address: "127.0.0.1:4711"}, Config: write(t, filepath.Join(dir, "x.yaml"), "tenant: of-dev\n"),
					Dial: func(context.Context, string) error {
						close(holds)
						<-open
						return nil
					},
				})
				if err != nil {
					t.Error(err)
				}
				stacks <- s
			}()
			<-holds
			if _, o := dev.Look(data); o != dev.Starting {
				t.Errorf("the folder is %d, want starting", o)
			}
			show := func(ctx context.Context) (got cli.Endpoint, code int, said string) {
				var stderr strings.Builder
				code = cli.RunWith(ctx, append([]string{"task", "show", "running"}, args...), strings.NewReader(""), &strings.Builder{}, &stderr,
					[]string{"TEMPORAL_CONFIG_FILE=" + filepath.Join(dir, "none.toml")}, cli.Parts{Tasks: setup(t), Now: now, Dir: dir, Found: &got})
				return got, code, stderr.String()
			}
			impatient, cancel := context.WithCancel(t.Context())
			cancel()
			if _, code, said := show(impatient); code != cli.ExitInterrupted {
				t.Errorf("interrupted while waiting: exit %d, %s", code, said)
			}
			time.AfterFunc(100*time.Millisecond, func() { close(open) })
			got, code, said := show(t.Context())
			if code != cli.ExitOK || got.Address != "127.0.0.1:4711" || got.Tenant != "of-dev" {
				t.Errorf("exit %d, %s, %+v", code, said, got)
			}
			if err := (<-stacks).Stop(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEngineThatIsDownIsNotReplacedByAnother checks that a folder with an engine's
// data is not served by whatever listens at the default address.
func TestEngineThatIsDownIsNotReplacedByAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, ".wakepoint")
	write(t, filepath.Join(data, "engine", "data.db"), "")
	for line, want := range map[string]int{
		"task show running":                                 cli.ExitUnreachable,
		"task show running --data other":                    cli.ExitOK,
		"task show running --address 127.0.0.1:1":           cli.ExitOK,
		"task show running --address 127.0.0.1:1 --data no": cli.ExitOK,
	} {
		var got cli.Endpoint
		var stderr strings.Builder
		code := cli.RunWith(t.Context(), strings.Fields(line), strings.NewReader(""), &strings.Builder{}, &stderr,
			[]string{"TEMPORAL_CONFIG_FILE=" + filepath.Join(dir, "none.toml")}, cli.Parts{Tasks: setup(t), Now: now, Dir: dir, Found: &got})
		said := "error: the engine of the data folder " + data + " is not running\nhint: start it: wakepoint dev; or name an engine with --address\n"
		if code != want || want != cli.ExitOK && stderr.String() != said {
			t.Errorf("%s: exit %d, %s", line, code, &stderr)
		}
	}
}

func TestConnectionThatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	none := "TEMPORAL_CONFIG_FILE=" + filepath.Join(dir, "none.toml")
	for name, c := range map[string]struct {
		args []string
		env  []string
		code int
		want string
	}{
		"no such profile":       {[]string{"--profile", "x"}, []string{none}, cli.ExitUsage, "read the connection's profile: "},
		"no such configuration": {[]string{"--config", "x.yaml"}, []string{none}, cli.ExitUsage, "there is no file " + filepath.Join(dir, "x.yaml")},
		"a broken one":          {[]string{"--config", write(t, filepath.Join(dir, "bad.yaml"), "tools:\n  x:\n    tll: 5m\n    exec: {argv: [true]}\n")}, []string{none}, cli.ExitUsage, "bad.yaml:3:5: tools.x.tll: is not a known key; did you mean ttl?"},
	} {
		var got cli.Endpoint
		var stderr strings.Builder
		code := cli.RunWith(t.Context(), append([]string{"task", "show", "running"}, c.args...), strings.NewReader(""), &strings.Builder{}, &stderr, c.env,
			cli.Parts{Tasks: setup(t), Now: now, Dir: dir, Found: &got})
		if code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit %d, %s", name, code, &stderr)
		}
	}
}

// TestNobodyAnswers goes the whole way of a real connection, to a port on which
// nobody listens.
func TestNobodyAnswers(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	var stdout, stderr strings.Builder
	env := []string{"TEMPORAL_CONFIG_FILE=" + filepath.Join(dir, "none.toml")}
	code := cli.Run(t.Context(), []string{"task", "list", "--address", "127.0.0.1:1"}, strings.NewReader(""), &stdout, &stderr, env)
	want := "error: no engine answers at 127.0.0.1:1 (from --address)\nhint: start one with `wakepoint dev`, or name one with --address or TEMPORAL_ADDRESS\n"
	if code != cli.ExitUnreachable || stdout.String() != "" || stderr.String() != want {
		t.Errorf("exit %d, %q, %q", code, &stdout, &stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a command that read nothing left %v, %v", left, err)
	}
}
