// Package deploy checks what a user starts in production: the compose file, Temporal's dynamic configuration and the
// Dockerfile. No Docker engine is needed: compose's own library reads the file, and the rules are ours.
package deploy

import (
	"context"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"
)

// Load reads a compose file with the given variables ("NAME=value") and no others: neither the caller's environment
// nor a file .env is looked at. A required variable that is missing or empty is an error.
func Load(ctx context.Context, file string, env []string) (*types.Project, error) {
	options, err := cli.NewProjectOptions([]string{file},
		cli.WithWorkingDirectory(filepath.Dir(file)), cli.WithEnv(env), cli.WithResolvedPaths(true))
	if err != nil {
		return nil, fmt.Errorf("compose options: %w", err)
	}
	project, err := options.LoadProject(ctx)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", file, err)
	}
	return project, nil
}

// Edge says that one service must not start before another is ready.
type Edge struct{ Later, Earlier string }

// Check compares a project with the rules that hold for every service, and with the order of starts that is asked for.
// It answers one line for each breach, sorted by service.
func Check(project *types.Project, order []Edge) []string {
	var breaches []string
	for _, name := range slices.Sorted(maps.Keys(project.Services)) {
		service := project.Services[name]
		for _, check := range []func(*types.Project, types.ServiceConfig) []string{image, health, dependencies, ports, volumes, environment} {
			for _, breach := range check(project, service) {
				breaches = append(breaches, name+": "+breach)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(project.Services)) {
		if reaches(project, name, name) {
			breaches = append(breaches, name+": waits for itself")
		}
	}
	for _, edge := range order {
		if !reaches(project, edge.Later, edge.Earlier) {
			breaches = append(breaches, fmt.Sprintf("%s: does not wait for %s", edge.Later, edge.Earlier))
		}
	}
	return breaches
}

// oneShot tells whether a service does one thing and ends. Such a one is repeated until it succeeded, and no longer.
func oneShot(service types.ServiceConfig) bool {
	return strings.HasPrefix(service.Restart, types.RestartPolicyOnFailure)
}

var pinnedTag = regexp.MustCompile(`^v?\d+\.\d+`)

// Pinned says why an image reference may mean another image tomorrow, or "" when it may not: its tag has to name a
// version down to the minor one, or it carries a digest.
func Pinned(ref string) string {
	if strings.Contains(ref, "@sha256:") {
		return ""
	}
	_, tag, ok := strings.Cut(ref[strings.LastIndex(ref, "/")+1:], ":")
	switch {
	case !ok || tag == "":
		return fmt.Sprintf("image %s has no tag, so it is the latest", ref)
	case !pinnedTag.MatchString(tag):
		return fmt.Sprintf("image %s is not pinned to a version", ref)
	}
	return ""
}

func image(_ *types.Project, service types.ServiceConfig) []string {
	if service.Build != nil { // made here from the checkout: its tag is only a name
		return nil
	}
	if why := Pinned(service.Image); why != "" {
		return []string{why}
	}
	return nil
}

func health(_ *types.Project, service types.ServiceConfig) []string {
	if oneShot(service) {
		return nil // its exit code is its health
	}
	var breaches []string
	if service.Restart != types.RestartPolicyUnlessStopped && service.Restart != types.RestartPolicyAlways {
		breaches = append(breaches, fmt.Sprintf("restart policy %q does not bring it back", service.Restart))
	}
	check := service.HealthCheck
	switch {
	case check == nil || check.Disable || len(check.Test) < 2 || check.Test[0] == "NONE":
		breaches = append(breaches, "has no health check")
	case check.Interval == nil || check.Timeout == nil || check.Retries == nil || check.StartPeriod == nil:
		breaches = append(breaches, "its health check leaves interval, timeout, retries or start period to the defaults")
	}
	return breaches
}

func dependencies(project *types.Project, service types.ServiceConfig) []string {
	var breaches []string
	for _, name := range slices.Sorted(maps.Keys(service.DependsOn)) {
		want := types.ServiceConditionHealthy
		if oneShot(project.Services[name]) {
			want = types.ServiceConditionCompletedSuccessfully
		}
		if got := service.DependsOn[name].Condition; got != want {
			breaches = append(breaches, fmt.Sprintf("waits for %s to be %s, want %s", name, got, want))
		}
	}
	return breaches
}

func ports(_ *types.Project, service types.ServiceConfig) []string {
	var breaches []string
	for _, port := range service.Ports {
		if ip := net.ParseIP(port.HostIP); ip == nil || !ip.IsLoopback() {
			breaches = append(breaches, fmt.Sprintf("port %d is published on %q, want a loopback address", port.Target, port.HostIP))
		}
	}
	return breaches
}

func volumes(_ *types.Project, service types.ServiceConfig) []string {
	var breaches []string
	for _, volume := range service.Volumes {
		switch {
		case volume.Type == types.VolumeTypeBind && !volume.ReadOnly:
			breaches = append(breaches, fmt.Sprintf("may write into the checkout at %s", volume.Target))
		case volume.Type == types.VolumeTypeVolume && volume.Source == "":
			breaches = append(breaches, fmt.Sprintf("volume at %s has no name, so its data is lost with the container", volume.Target))
		}
	}
	return breaches
}

// maxMembershipPort is the largest value of the column that Temporal keeps membership ports in on PostgreSQL, a SMALLINT.
const maxMembershipPort = 1<<15 - 1

func environment(_ *types.Project, service types.ServiceConfig) []string {
	var breaches []string
	for _, key := range slices.Sorted(maps.Keys(service.Environment)) {
		value := service.Environment[key]
		if value == nil || !strings.HasSuffix(key, "_MEMBERSHIP_PORT") {
			continue
		}
		if port, err := strconv.Atoi(*value); err != nil || port < 1 || port > maxMembershipPort {
			breaches = append(breaches, fmt.Sprintf("%s is %s, want 1 to %d", key, *value, maxMembershipPort))
		}
	}
	return breaches
}

// reaches tells whether a service waits for another, directly or through others.
func reaches(project *types.Project, later, earlier string) bool {
	seen := map[string]bool{}
	var visit func(string) bool
	visit = func(name string) bool {
		for next := range project.Services[name].DependsOn {
			if next == earlier {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if visit(next) {
					return true
				}
			}
		}
		return false
	}
	return visit(later)
}

var (
	secretKey   = regexp.MustCompile(`(PASSWORD|PWD|SECRET|TOKEN|API_KEY)$`)
	requiredVar = regexp.MustCompile(`^\$\{[A-Z_]+:\?[^}]+\}$`)
	variable    = regexp.MustCompile(`\$\{([A-Z_]+)`)
)

// Secrets reads the text of a compose file, before variables are filled in, and says which secrets are written in it or
// have a default: each must be a variable that is required with a message.
func Secrets(src []byte) ([]string, error) {
	var file struct {
		Services map[string]struct{ Environment map[string]string }
	}
	if err := yaml.Unmarshal(src, &file); err != nil {
		return nil, fmt.Errorf("read compose file: %w", err)
	}
	var breaches []string
	for _, name := range slices.Sorted(maps.Keys(file.Services)) {
		env := file.Services[name].Environment
		for _, key := range slices.Sorted(maps.Keys(env)) {
			if secretKey.MatchString(key) && !requiredVar.MatchString(env[key]) {
				breaches = append(breaches, fmt.Sprintf("%s: %s is not a required variable", name, key))
			}
		}
	}
	return breaches, nil
}

// Variables lists the variables that a compose file refers to, sorted.
func Variables(src []byte) []string {
	var names []string
	for _, match := range variable.FindAllSubmatch(src, -1) {
		names = append(names, string(match[1]))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// DynamicConfig reads a file of Temporal's dynamic configuration: each key with the values that apply everywhere. A
// setting with several values, or with constraints, is an error: this product needs none.
func DynamicConfig(src []byte) (map[string]any, error) {
	var file map[string][]struct {
		Value       any
		Constraints map[string]any
	}
	if err := yaml.Unmarshal(src, &file); err != nil {
		return nil, fmt.Errorf("read dynamic configuration: %w", err)
	}
	settings := map[string]any{}
	for key, values := range file {
		if len(values) != 1 || len(values[0].Constraints) > 0 {
			return nil, fmt.Errorf("dynamic configuration %s: want one value without constraints", key)
		}
		settings[key] = values[0].Value
	}
	return settings, nil
}
