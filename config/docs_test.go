package config_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/config"
)

// TestDocsNameEveryKey asks the parser for its keys, by mistakes that make it list
// them, and compares them with the tables of the page.
func TestDocsNameEveryKey(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for section, text := range map[string]string{
		"## The installation": "QQQ: 1",
		"## tools":            "tools: {a: {QQQ: 1}}",
		"### exec":            "tools: {a: {exec: {QQQ: 1}}}",
		"### http":            "tools: {a: {http: {QQQ: 1}}}",
		"### activity":        "tools: {a: {activity: {QQQ: 1}}}",
		"### workflow":        "tools: {a: {workflow: {QQQ: 1}}}",
		"### go":              "tools: {a: {go: {QQQ: 1}}}",
		"## targets":          "targets: {a: {QQQ: 1}}",
		"## runtimes":         "runtimes: {a: {QQQ: 1}}",
		"### push":            "runtimes: {a: {push: {QQQ: 1}}}",
		"## runs":             "runs: {QQQ: 1}",

		"### activity of a runtime": "runtimes: {a: {activity: {QQQ: 1}}}",
	} {
		known := keysOf(t, text)
		_, after, ok := strings.Cut(page, "\n"+section+"\n")
		if !ok {
			t.Fatalf("no section %s", section)
		}
		after, _, _ = strings.Cut(after, "\n## ")
		after, _, _ = strings.Cut(after, "\n### ")
		var documented []string
		for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(after, -1) {
			documented = append(documented, m[1])
		}
		slices.Sort(known)
		slices.Sort(documented)
		if !slices.Equal(known, documented) {
			t.Errorf("%s: the parser knows %v, the page %v", section, known, documented)
		}
	}
	for parent, text := range map[string]string{
		"backoff": "tools: {a: {backoff: {QQQ: 1}}}", "late": "tools: {a: {late: {QQQ: 1}}}", "expected": "tools: {a: {expected: {QQQ: 1}}}",
		"cache": "tools: {a: {cache: {QQQ: 1}}}", "sweep": "sweep: {QQQ: 1}",
		"find": "tools: {a: {http: {find: {QQQ: 1}}}}", "status": "tools: {a: {http: {status: {QQQ: 1}}}}",
		"cancel": "tools: {a: {http: {cancel: {QQQ: 1}}}}", "list": "tools: {a: {http: {list: {QQQ: 1}}}}",
		"limits": "runtimes: {a: {limits: {QQQ: 1}}}",
		"fields": "tools: {a: {http: {fields: {QQQ: 1}}}}", "states": "tools: {a: {http: {states: {QQQ: 1}}}}",
	} {
		row := regexp.MustCompile("(?m)^\\| `" + parent + "` \\|.*$").FindString(page)
		for _, key := range keysOf(t, text) {
			if !strings.Contains(row, "`"+key+"`") {
				t.Errorf("the row of %s does not name %s", parent, key)
			}
		}
	}
}

func keysOf(t *testing.T, text string) []string {
	t.Helper()
	_, err := config.Parse("w.yaml", []byte(text))
	m := regexp.MustCompile(`QQQ: is not a known key; known are (.*)`).FindStringSubmatch(err.Error())
	if m == nil {
		t.Fatalf("%q gives %v", text, err)
	}
	return strings.Split(m[1], ", ")
}

func TestDocsExampleIsValid(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, ok := strings.Cut(string(b), "```yaml\n")
	if !ok {
		t.Fatal("the page has no example")
	}
	example, _, _ = strings.Cut(example, "```")
	c, err := config.Parse("wakepoint.yaml", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Tools) != 4 || len(c.Targets) != 1 || len(c.Runtimes) != 3 {
		t.Errorf("got %d tools, %d targets and %d runtimes", len(c.Tools), len(c.Targets), len(c.Runtimes))
	}
}
