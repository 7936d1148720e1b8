package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/tests/deploy"
)

const (
	// root is the checkout as seen from this package's folder.
	root        = "../.."
	composeFile = root + "/docker-compose.temporal.yml"
)

// filledIn is what a user has to fill in.
var filledIn = []string{"POSTGRES_USER=temporal", "POSTGRES_PASSWORD=quiet-otter-41", "WAKEPOINT_SECRET=0123456789abcdef"}

// order is the order in which the services may start.
var order = []deploy.Edge{
	{Later: "schema", Earlier: "postgres"},
	{Later: "temporal", Earlier: "schema"},
	{Later: "setup", Earlier: "temporal"},
	{Later: "worker", Earlier: "setup"},
	{Later: "ui", Earlier: "temporal"},
}

func TestComposeFile(t *testing.T) {
	t.Parallel()
	project := load(t)
	want := []string{"postgres", "schema", "setup", "temporal", "ui", "worker"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(project.Services))); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	for _, breach := range deploy.Check(project, order) {
		t.Error(breach)
	}
	server, schema := tag(project.Services["temporal"]), tag(project.Services["schema"])
	if server != schema {
		t.Errorf("the schema is set up by version %s for a server of version %s", schema, server)
	}
	for _, service := range project.Services {
		for _, volume := range service.Volumes {
			if volume.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(volume.Source); err != nil {
				t.Errorf("%s mounts what is not there: %v", service.Name, err)
			}
		}
	}
	// The server must be told about the file that is mounted into it.
	temporal := project.Services["temporal"]
	if path := temporal.Environment["DYNAMIC_CONFIG_FILE_PATH"]; path == nil || !slices.ContainsFunc(temporal.Volumes,
		func(v types.ServiceVolumeConfig) bool { return v.Target == *path }) {
		t.Error("temporal: DYNAMIC_CONFIG_FILE_PATH names no mounted file")
	}
	// Both must work on the namespace that was set up.
	for _, name := range []string{"setup", "worker"} {
		env := project.Services[name].Environment
		if env["TEMPORAL_ADDRESS"] == nil || env["TEMPORAL_NAMESPACE"] == nil ||
			*env["TEMPORAL_NAMESPACE"] != *project.Services["ui"].Environment["TEMPORAL_DEFAULT_NAMESPACE"] {
			t.Errorf("%s: is not told where its namespace is, or another one than the UI", name)
		}
	}
}

// A password that is not given must stop the start, not be empty or a well-known word.
func TestRequiredVariables(t *testing.T) {
	t.Parallel()
	for _, missing := range filledIn {
		name, _, _ := strings.Cut(missing, "=")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, env := range [][]string{
				slices.DeleteFunc(slices.Clone(filledIn), func(v string) bool { return v == missing }),
				append(slices.Clone(filledIn), name+"="),
			} {
				if _, err := deploy.Load(t.Context(), composeFile, env); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("load with %v: got error %v, want one that names %s", env, err, name)
				}
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	breaches, err := deploy.Secrets(read(t, composeFile))
	if err != nil || len(breaches) > 0 {
		t.Errorf("got %v, error %v", breaches, err)
	}
	sample := `
services:
  a: {environment: {DB_PASSWORD: "secret", USER: "plain"}}
  b: {environment: {DB_PWD: "${PWD_OF_DB:-secret}"}}
  c: {environment: {API_TOKEN: "${API_TOKEN:?is required}"}}
`
	got, err := deploy.Secrets([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a: DB_PASSWORD is not a required variable", "b: DB_PWD is not a required variable"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("breaches (-want +got):\n%s", diff)
	}
}

// The example lists every variable, and gives none of the secrets.
func TestEnvExample(t *testing.T) {
	t.Parallel()
	src := read(t, root+"/deploy/temporal.env.example")
	env, err := dotenv.UnmarshalBytesWithLookup(src, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(deploy.Variables(read(t, composeFile)), slices.Sorted(maps.Keys(env))); diff != "" {
		t.Errorf("used by the compose file (-) and listed in the example (+):\n%s", diff)
	}
	for _, secret := range []string{"POSTGRES_PASSWORD", "WAKEPOINT_SECRET"} {
		if env[secret] != "" {
			t.Errorf("the example gives a %s, which somebody would keep", secret)
		}
	}
	if ignored := string(read(t, root+"/deploy/.gitignore")); !strings.Contains(ignored, "temporal.env\n") {
		t.Error("the filled-in file is not ignored by git")
	}
}

// The sample installation is whole, keeps its data in the named volume and takes its secret from where compose puts it.
func TestSampleInstallation(t *testing.T) {
	t.Parallel()
	conf, err := config.Load(filepath.FromSlash(root + "/deploy/wakepoint.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	worker := load(t).Services["worker"]
	if !slices.ContainsFunc(worker.Volumes, func(v types.ServiceVolumeConfig) bool {
		return v.Type == types.VolumeTypeVolume && v.Target == conf.DataDir
	}) {
		t.Errorf("data folder %s is on no named volume", conf.DataDir)
	}
	env, ok := worker.Environment[conf.Secret.Env]
	if !ok || env == nil {
		t.Fatalf("the worker has no variable %q", conf.Secret.Env)
	}
	if _, err := config.Secret(conf, func(string) string { return *env }); err != nil {
		t.Error(err)
	}
	if worker.Hostname == "" {
		t.Error("the worker has no fixed host name, so its next container would not find the jobs of this one")
	}
	named := worker.Environment["WAKEPOINT_CONFIG"]
	if named == nil || !slices.ContainsFunc(worker.Volumes, func(v types.ServiceVolumeConfig) bool {
		return filepath.Base(v.Source) == "wakepoint.yaml" && v.Target == *named
	}) {
		t.Error("the worker is not told to read the mounted installation")
	}
}

func TestDynamicConfig(t *testing.T) {
	t.Parallel()
	got, err := deploy.DynamicConfig(read(t, root+"/deploy/dynamicconfig.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"limit.maxIDLength":             255,
		"history.maxInFlightUpdates":    1000,
		"history.MaxBufferedQueryCount": 10,
		"matching.enableFairness":       true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dynamic configuration (-want +got):\n%s", diff)
	}
	for name, sample := range map[string]string{
		"no list":     "limit.maxIDLength: 255",
		"two values":  "limit.maxIDLength: [{value: 255}, {value: 300}]",
		"constrained": "limit.maxIDLength: [{value: 255, constraints: {namespace: other}}]",
	} {
		if settings, err := deploy.DynamicConfig([]byte(sample)); err == nil {
			t.Errorf("%s: got %v, want an error", name, settings)
		}
	}
}

// Each sample breaks one rule, so the checks are known to be able to fail.
func TestCheckFindsBreaches(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		edit func(*types.ServiceConfig)
		of   string
		want []string
	}{
		"latest": {
			of: "ui", edit: func(s *types.ServiceConfig) { s.Image = "temporalio/ui:latest" },
			want: []string{"ui: image temporalio/ui:latest is not pinned to a version"},
		},
		"no tag behind a port": {
			of: "ui", edit: func(s *types.ServiceConfig) { s.Image = "registry:5000/temporalio/ui" },
			want: []string{"ui: image registry:5000/temporalio/ui has no tag, so it is the latest"},
		},
		"major version only": {
			of: "postgres", edit: func(s *types.ServiceConfig) { s.Image = "postgres:16" },
			want: []string{"postgres: image postgres:16 is not pinned to a version"},
		},
		"no health check": {
			of: "temporal", edit: func(s *types.ServiceConfig) { s.HealthCheck = nil },
			want: []string{"temporal: has no health check"},
		},
		"health check without a command": {
			of: "worker", edit: func(s *types.ServiceConfig) { s.HealthCheck.Test = types.HealthCheckTest{"NONE"} },
			want: []string{"worker: has no health check"},
		},
		"health check by default values": {
			of: "worker", edit: func(s *types.ServiceConfig) { s.HealthCheck.StartPeriod = nil },
			want: []string{"worker: its health check leaves interval, timeout, retries or start period to the defaults"},
		},
		"does not come back": {
			of: "ui", edit: func(s *types.ServiceConfig) { s.Restart = "no" },
			want: []string{`ui: restart policy "no" does not bring it back`},
		},
		"waits for a start only": {
			of: "ui", edit: condition("temporal", types.ServiceConditionStarted),
			want: []string{"ui: waits for temporal to be service_started, want service_healthy"},
		},
		"waits for the health of what ends": {
			of: "worker", edit: condition("setup", types.ServiceConditionHealthy),
			want: []string{"worker: waits for setup to be service_healthy, want service_completed_successfully"},
		},
		"does not wait for the schema": {
			of: "temporal", edit: func(s *types.ServiceConfig) { delete(s.DependsOn, "schema") },
			want: []string{"temporal: does not wait for schema"},
		},
		"a cycle": {
			of: "postgres", edit: condition("temporal", types.ServiceConditionHealthy),
			want: []string{"postgres: waits for itself", "schema: waits for itself", "temporal: waits for itself"},
		},
		"open to the network": {
			of: "temporal", edit: func(s *types.ServiceConfig) { s.Ports[0].HostIP = "0.0.0.0" },
			want: []string{`temporal: port 7233 is published on "0.0.0.0", want a loopback address`},
		},
		"open by leaving the address out": {
			of: "ui", edit: func(s *types.ServiceConfig) { s.Ports[0].HostIP = "" },
			want: []string{`ui: port 8080 is published on "", want a loopback address`},
		},
		"writes into the checkout": {
			of: "schema", edit: func(s *types.ServiceConfig) { s.Volumes[0].ReadOnly = false },
			want: []string{"schema: may write into the checkout at /schema.sh"},
		},
		"volume without a name": {
			of: "postgres", edit: func(s *types.ServiceConfig) { s.Volumes[0].Source = "" },
			want: []string{"postgres: volume at /var/lib/postgresql/data has no name, so its data is lost with the container"},
		},
		"membership port that the database cannot keep": {
			of: "temporal", edit: func(s *types.ServiceConfig) {
				port := "32768"
				s.Environment["HISTORY_MEMBERSHIP_PORT"] = &port
			},
			want: []string{"temporal: HISTORY_MEMBERSHIP_PORT is 32768, want 1 to 32767"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := load(t)
			service := project.Services[tc.of]
			tc.edit(&service)
			project.Services[tc.of] = service
			if diff := cmp.Diff(tc.want, deploy.Check(project, order)); diff != "" {
				t.Errorf("breaches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	programs := []string{"wakepoint", "wakepoint-engine"}
	good := string(read(t, root+"/Dockerfile"))
	for _, breach := range deploy.Dockerfile([]byte(good), programs) {
		t.Error(breach)
	}
	tests := map[string]struct {
		old, new string
		want     []string
	}{
		"floating base": {
			old: "BASE_IMAGE=debian:12.12-slim", new: "BASE_IMAGE=debian:stable-slim",
			want: []string{"image debian:stable-slim is not pinned to a version"},
		},
		"without the engine": {
			old: "COPY --from=engine", new: "# COPY",
			want: []string{"the image does not hold wakepoint-engine"},
		},
		"as root": {
			old: "USER 10001:10001", new: "USER root",
			want: []string{`the image runs as user "root"`},
		},
		"by a shell": {
			old: `ENTRYPOINT ["/usr/local/bin/wakepoint"]`, new: "ENTRYPOINT /usr/local/bin/wakepoint",
			want: []string{"the image starts /usr/local/bin/wakepoint, want wakepoint without a shell"},
		},
		"without a health check": {
			old: "HEALTHCHECK", new: "LABEL x=",
			want: []string{"the image has no health check"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := strings.Replace(good, tc.old, tc.new, 1)
			if bad == good {
				t.Fatalf("the Dockerfile has no %q to change", tc.old)
			}
			if diff := cmp.Diff(tc.want, deploy.Dockerfile([]byte(bad), programs)); diff != "" {
				t.Errorf("breaches (-want +got):\n%s", diff)
			}
		})
	}
}

// condition makes an edit that waits for a service in a certain way.
func condition(name, want string) func(*types.ServiceConfig) {
	return func(s *types.ServiceConfig) {
		if s.DependsOn == nil {
			s.DependsOn = types.DependsOnConfig{}
		}
		s.DependsOn[name] = types.ServiceDependency{Condition: want, Required: true}
	}
}

func load(t *testing.T) *types.Project {
	t.Helper()
	project, err := deploy.Load(t.Context(), composeFile, filledIn)
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func tag(service types.ServiceConfig) string {
	return service.Image[strings.LastIndex(service.Image, ":")+1:]
}
