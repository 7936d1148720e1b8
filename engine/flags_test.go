package engine_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/engine"
)

func defaultFlags() map[string]any {
	return map[string]any{
		"ip": "127.0.0.1", "port": 7233, "http-port": 0, "metrics-port": -1,
		"headless": false, "ui-ip": "127.0.0.1", "ui-port": -1,
		"ui-public-path": "", "ui-codec-endpoint": "", "ui-asset-path": "",
		"db-filename": "", "data-dir": "", "synchronous": "off",
		"namespace": []string{"default"}, "retention": "168h0m0s", "search-attribute": map[string]string{},
		"dynamic-config-value": map[string]any{}, "log-level": "WARN", "log-json": false,
		"ready-file": "", "exit-with-stdin": false,
	}
}

func TestFlagsAccepted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want map[string]any // differences from the defaults
	}{
		"none":                 {nil, nil},
		"equals sign":          {[]string{"--port=0", "--headless=true"}, map[string]any{"port": 0, "headless": true}},
		"short":                {[]string{"-p", "1", "-n", "a", "-n", "b", "-f", "x.db"}, map[string]any{"port": 1, "namespace": []string{"a", "b"}, "db-filename": "x.db", "synchronous": "full"}},
		"namespace repeated":   {[]string{"--namespace", "a", "--namespace", "a"}, map[string]any{"namespace": []string{"a"}}},
		"localhost":            {[]string{"--ip", "localhost"}, nil},
		"ui address follows":   {[]string{"--ip", "::1"}, map[string]any{"ip": "::1", "ui-ip": "::1"}},
		"ui address own":       {[]string{"--ip", "0.0.0.0", "--ui-ip", "127.0.0.1"}, map[string]any{"ip": "0.0.0.0"}},
		"free ports":           {[]string{"--ui-port", "0", "--metrics-port", "0", "--http-port", "0"}, map[string]any{"ui-port": 0, "metrics-port": 0}},
		"data is durable":      {[]string{"--data-dir", "d"}, map[string]any{"data-dir": "d", "synchronous": "full"}},
		"data less so":         {[]string{"--data-dir", "d", "--synchronous", "normal"}, map[string]any{"data-dir": "d", "synchronous": "normal"}},
		"temporary yet full":   {[]string{"--synchronous", "full"}, map[string]any{"synchronous": "full"}},
		"retention":            {[]string{"--retention", "1s"}, map[string]any{"retention": "1s"}},
		"logs":                 {[]string{"--log-level", "never", "--log-format", "json"}, map[string]any{"log-level": "ERROR+92", "log-json": true}},
		"logs as the sdk does": {[]string{"--log-level", "warn", "--log-format", "pretty"}, nil},
		"child":                {[]string{"--ready-file", "r", "--exit-with-stdin"}, map[string]any{"ready-file": "r", "exit-with-stdin": true}},
		"ui behind a proxy":    {[]string{"--ui-public-path", "/t", "--ui-codec-endpoint", "http://c"}, map[string]any{"ui-public-path": "/t", "ui-codec-endpoint": "http://c"}},
		"news":                 {[]string{"--ui-disable-news-fetch"}, nil},
		"search attributes": {
			[]string{
				"--search-attribute", "A=Keyword", "--search-attribute", "B=Int", "--search-attribute", "C=Text", "--search-attribute", "D=Bool",
				"--search-attribute", "E=Double", "--search-attribute", "F=Datetime", "--search-attribute", "G=keywordlist",
			},
			map[string]any{"search-attribute": map[string]string{
				"A": "Keyword", "B": "Int", "C": "Text", "D": "Bool", "E": "Double", "F": "Datetime", "G": "KeywordList",
			}},
		},
		"one of our own again": {[]string{"--search-attribute", "WakepointTenant=Keyword"}, map[string]any{"search-attribute": map[string]string{"WakepointTenant": "Keyword"}}},
		"dynamic values": {
			[]string{
				"--dynamic-config-value", "a=1", "--dynamic-config-value", "b=1.5", "--dynamic-config-value", "c=true",
				"--dynamic-config-value", `d="10s"`, "--dynamic-config-value", `e={"n":[2,{"m":3}]}`, "--dynamic-config-value", "a=4",
			},
			map[string]any{"dynamic-config-value": map[string]any{
				"a": 4, "b": 1.5, "c": true, "d": "10s", "e": map[string]any{"n": []any{2, map[string]any{"m": 3}}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := defaultFlags()
			maps.Copy(want, tc.want)
			got, err := engine.ParsedFlags(tc.args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("flags %v (-want +got):\n%s", tc.args, diff)
			}
		})
	}
}

func TestFlagsRefused(t *testing.T) {
	t.Parallel()
	tooManyKeywords := []string{}
	for _, n := range []string{"A", "B", "C", "D", "E", "F"} {
		tooManyKeywords = append(tooManyKeywords, "--search-attribute", n+"=Keyword")
	}
	for name, tc := range map[string]struct {
		args []string
		want string // in the error line
	}{
		"unknown":                {[]string{"--bogus"}, "unknown flag --bogus"},
		"unknown with value":     {[]string{"--bogus=1"}, "unknown flag --bogus"},
		"known upstream":         {[]string{"--sqlite-pragma", "a=b"}, "--sqlite-pragma is not supported: "},
		"no value":               {[]string{"--port"}, "--port"},
		"not a number":           {[]string{"--port", "x"}, `invalid value "x" for --port`},
		"port too big":           {[]string{"--port", "65536"}, "--port 65536: a port is 0 (any free one) to 65535"},
		"port negative":          {[]string{"--ui-port", "-1"}, "--ui-port -1: "},
		"left over":              {[]string{"--headless", "false"}, `unexpected argument "false"`},
		"host name":              {[]string{"--ip", "example"}, `--ip "example" is not an IP address`},
		"ui host name":           {[]string{"--ui-ip", "example"}, `--ui-ip "example" is not an IP address`},
		"two places":             {[]string{"--data-dir", "d", "--db-filename", "f"}, "--db-filename and --data-dir exclude each other"},
		"synchronous off":        {[]string{"--synchronous", "off"}, `--synchronous "off": allowed are full and normal`},
		"namespace empty":        {[]string{"--namespace", ""}, `--namespace ""`},
		"namespace blank":        {[]string{"--namespace", "a b"}, `--namespace "a b"`},
		"namespace long":         {[]string{"--namespace", strings.Repeat("a", 256)}, "at most 255"},
		"namespace reserved":     {[]string{"--namespace", "temporal-system"}, "belongs to the server"},
		"retention short":        {[]string{"--retention", "999ms"}, "--retention 999ms is shorter than 1s"},
		"retention no unit":      {[]string{"--retention", "7"}, `invalid value "7" for --retention`},
		"attribute no type":      {[]string{"--search-attribute", "A"}, `--search-attribute "A" is not Name=Type`},
		"attribute odd type":     {[]string{"--search-attribute", "A=String"}, `unknown type "String"`},
		"attribute odd name":     {[]string{"--search-attribute", "1=Int"}, `--search-attribute "1"`},
		"attribute reserved":     {[]string{"--search-attribute", "WorkflowId=Keyword"}, "belongs to the server"},
		"attribute column":       {[]string{"--search-attribute", "Keyword01=Keyword"}, "is one of a column"},
		"attribute two types":    {[]string{"--search-attribute", "A=Int", "--search-attribute", "A=Bool"}, "A=Bool: it is a Int already"},
		"attribute ours":         {[]string{"--search-attribute", "WakepointTenant=Int"}, "it is a Keyword already"},
		"attributes too many":    {tooManyKeywords, "SQL visibility holds 10 of type Keyword"},
		"dynamic no value":       {[]string{"--dynamic-config-value", "a"}, "is not KEY=JSON"},
		"dynamic no key":         {[]string{"--dynamic-config-value", "=1"}, "is not KEY=JSON"},
		"dynamic not JSON":       {[]string{"--dynamic-config-value", "a=text"}, `"text" is not JSON`},
		"dynamic two values":     {[]string{"--dynamic-config-value", "a=1 2"}, `"1 2" is not JSON`},
		"log level":              {[]string{"--log-level", "loud"}, `--log-level "loud"`},
		"log format":             {[]string{"--log-format", "xml"}, `--log-format "xml"`},
		"ui path relative":       {[]string{"--ui-public-path", "t"}, `--ui-public-path "t"`},
		"ui path trailing slash": {[]string{"--ui-public-path", "/t/"}, `--ui-public-path "/t/"`},
		"ui assets missing":      {[]string{"--ui-asset-path", "/nowhere/at/all"}, "is not a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := refused(append([]string{"server", "start-dev"}, tc.args...)...)
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			if code != engine.ExitUsage || stdout != "" || len(lines) != 2 ||
				!strings.HasPrefix(lines[0], "error: ") || !strings.Contains(lines[0], tc.want) || !strings.HasPrefix(lines[1], "hint: ") {
				t.Errorf("exit %d, stdout %q, stderr:\n%s\nwant exit %d, an error with %q and a hint", code, stdout, stderr, engine.ExitUsage, tc.want)
			}
		})
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string // parts
	}{
		"version":         {[]string{"version"}, engine.ExitOK, "temporal server 1.32.1, temporal ui 2.55.0", ""},
		"version flag":    {[]string{"--version"}, engine.ExitOK, "wakepoint-engine ", ""},
		"help":            {[]string{"--help"}, engine.ExitOK, "wakepoint-engine server start-dev", ""},
		"help of start":   {[]string{"server", "start-dev", "--help"}, engine.ExitOK, "--data-dir DIR", ""},
		"help among more": {[]string{"server", "start-dev", "--port", "1", "-h"}, engine.ExitOK, "--data-dir DIR", ""},
		"nothing":         {nil, engine.ExitUsage, "", "no command given"},
		"unknown":         {[]string{"serve"}, engine.ExitUsage, "", `unknown command "serve"`},
		"half":            {[]string{"server"}, engine.ExitUsage, "", "server needs a sub-command"},
		"unknown half":    {[]string{"server", "start"}, engine.ExitUsage, "", `unknown command "server start"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := refused(tc.args...)
			if code != tc.code || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) {
				t.Errorf("exit %d\nstdout: %s\nstderr: %s", code, stdout, stderr)
			}
			if tc.stderr == "" && stderr != "" {
				t.Errorf("stderr of a success: %s", stderr)
			}
		})
	}
}

// TestTextsListEverything holds the help text and the documentation to the flags and settings that exist.
func TestTextsListEverything(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/engine.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range engine.FlagNames() {
		dashes := "--"
		if len(name) == 1 {
			dashes = "-"
		}
		listed := regexp.MustCompile(`(^|[^a-z-])` + dashes + name + `([^a-z-]|$)`)
		if !listed.MatchString(engine.StartHelp) {
			t.Errorf("the help does not list %s%s", dashes, name)
		}
		if !listed.MatchString(string(page)) {
			t.Errorf("docs/engine.md does not list %s%s", dashes, name)
		}
	}
	for _, m := range regexp.MustCompile(`--([a-z][a-z-]+)`).FindAllStringSubmatch(engine.StartHelp, -1) {
		if m[1] != "help" && !slices.Contains(engine.FlagNames(), m[1]) {
			t.Errorf("the help lists --%s, which does not exist", m[1])
		}
	}
	for key, why := range engine.DynamicDefaults() {
		if !strings.Contains(string(page), "`"+key+"`") || !strings.Contains(string(page), why) {
			t.Errorf("docs/engine.md does not give %s with its reason: %s", key, why)
		}
	}
	for _, name := range engine.OwnAttributes() {
		if !strings.Contains(string(page), name) {
			t.Errorf("docs/engine.md does not name the search attribute %s", name)
		}
	}
}
