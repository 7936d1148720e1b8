package demo

import (
	"fmt"
	"strconv"
	"strings"
)

// toolEnv is what the tools may see of the environment: what the go command and
// git need to work as they do for the user.
var toolEnv = []string{
	"PATH", "HOME", "LANG", "TMPDIR", "TZ", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
	"GOCACHE", "GOENV", "GOEXPERIMENT", "GOFLAGS", "GOINSECURE", "GOMODCACHE", "GONOPROXY", "GONOSUMDB", "GOPATH", "GOPRIVATE", "GOPROXY", "GOROOT",
	"GOSUMDB", "GOTMPDIR", "GOTOOLCHAIN", "GOWORK", "CGO_ENABLED", "CC",
}

// Config is a wakepoint.yaml that declares the tools of the demo, run by the
// given command line and the name of the tool, and what holds for its run.
func Config(command []string) []byte {
	var b strings.Builder
	b.WriteString("# Written by `wakepoint demo`: the tools that work on a Go source tree.\ntools:\n")
	for _, s := range []struct{ name, title, ttl string }{
		{ToolVet, "go vet of every package", "20m"},
		{ToolTest, "go test of a few packages that touch nothing", "20m"},
		{ToolFormat, "gofmt of every Go file", "10m"},
		{ToolCount, "count of the code", "10m"},
		{ToolHistory, "summary of the git history", "10m"},
	} {
		fmt.Fprintf(&b, "  %s:\n    title: %s\n    ttl: %s\n    effects: none\n    maxAttempts: 2\n", s.name, strconv.Quote(s.title), s.ttl)
		b.WriteString("    inputSchema:\n      type: object\n      required: [dir]\n      additionalProperties: false\n      properties:\n")
		b.WriteString("        dir: {type: string, minLength: 1}\n        exclude: {type: array, items: {type: string}}\n")
		fmt.Fprintf(&b, "    exec:\n      argv: [%s]\n      env: [%s]\n      killGrace: 2s\n", argv(command, s.name), strings.Join(toolEnv, ", "))
	}
	fmt.Fprintf(&b, "  %s:\n    title: report about what was found\n    ttl: 10m\n    effects: none\n    maxAttempts: 2\n", ToolReport)
	b.WriteString("    inputSchema: {type: object, required: [module, steps]}\n")
	fmt.Fprintf(&b, "    exec:\n      argv: [%s]\n      killGrace: 2s\n      resultContentType: text/markdown\n", argv(command, ToolReport))
	// A report about four of five is better than none; it says which one is missing. A
	// demo that is interrupted has its tools stopped by then.
	b.WriteString("runs:\n  onFailedDependency: run\n  cancelGrace: 20s\n")
	return []byte(b.String())
}

func argv(command []string, tool string) string {
	return quoted(append(append([]string{}, command...), tool))
}

// quoted is a list of YAML scalars in double quotes, whose escapes are Go's.
func quoted(list []string) string {
	q := make([]string, 0, len(list))
	for _, s := range list {
		q = append(q, strconv.Quote(s))
	}
	return strings.Join(q, ", ")
}
