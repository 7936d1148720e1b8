package http_test

import (
	"bufio"
	nethttp "net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/http"
	"github.com/wakepoint/wakepoint/config"
)

var page = filepath.Join("..", "..", "..", "docs", "http.md")

func readPage(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// block gives the first block of code in a language.
func block(t *testing.T, language string) string {
	t.Helper()
	m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(readPage(t))
	if m == nil {
		t.Fatalf("docs/http.md has no block of %s", language)
	}
	return m[1]
}

// The tables of status codes are those that the code goes by.
func TestDocs(t *testing.T) {
	t.Parallel()
	text := readPage(t)
	was := text
	for name, table := range map[string]string{"statuses of a POST": http.StatusTable(), "statuses of the rest": http.LookTable()} {
		re := regexp.MustCompile(`(?s)(<!-- ` + name + `: [^\n]*-->\n).*?(<!-- end -->)`)
		if !re.MatchString(text) {
			t.Fatalf("docs/http.md has no place for the %s", name)
		}
		text = re.ReplaceAllString(text, "${1}\n"+strings.ReplaceAll(table, "$", "$$")+"\n${2}")
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil { //nolint:gosec // a page for everybody
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(was, "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("docs/http.md is not what the code does; write it anew by -update, if that is meant:\n%s", diff)
	}
}

// Both tables take the same answers for a refusal for now.
func TestTablesAgree(t *testing.T) {
	t.Parallel()
	for status := 100; status < 1000; status++ {
		if post, look := http.Throttles(status); post != look {
			t.Errorf("%d: a POST is throttled: %v, a look: %v", status, post, look)
		}
	}
}

// The page names every code of a failure.
func TestDocumentationIsComplete(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("executor.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`Code\w+ += "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 10 {
		t.Fatalf("codes found: %q", codes)
	}
	text := readPage(t)
	for _, m := range codes {
		if !strings.Contains(text, "| `"+m[1]+"` |") {
			t.Errorf("docs/http.md does not name %s", m[1])
		}
	}
}

// The declaration in the documentation is one.
func TestDocumentedDeclaration(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("wakepoint.yaml", []byte(block(t, "yaml")))
	if err != nil {
		t.Fatal(err)
	}
	declared, ok := c.Tool("render")
	if !ok || declared.HTTP == nil {
		t.Fatal("there is no tool render")
	}
	h := declared.HTTP
	s := answers(t, 200, nil, "")
	e := s.executor(func(c *http.Config) {
		c.URL, c.Idempotent, c.StatusURL, c.FindURL, c.ListURL = h.URL, h.Idempotent, h.StatusURL, h.FindURL, h.ListURL
	})
	want := tool.Promises{SubmitOnce: tool.ScopeAlways, Find: tool.FindHint, Cancel: tool.CancelAsked, Observe: true, List: true, Survives: true, Remembers: "as long as the service keeps a job"}
	if diff := cmp.Diff(want, e.Promises()); diff != "" {
		t.Errorf("promises differ:\n%s", diff)
	}
}

// exchange is a request and its answer in the documentation.
type exchange struct {
	method, uri, body string
	header            map[string]string
	status            int
	answerHeader      map[string]string
	answer            string
}

// exchanges reads the conversation in the documentation.
func exchanges(t *testing.T) []exchange {
	t.Helper()
	var all []exchange
	for text := range strings.SplitSeq(block(t, "http"), "###\n") {
		lines := bufio.NewScanner(strings.NewReader(text))
		x := exchange{header: map[string]string{}, answerHeader: map[string]string{}}
		for lines.Scan() {
			line := lines.Text()
			name, value, isHeader := strings.Cut(line, ": ")
			status, err := strconv.Atoi(line)
			switch {
			case line == "":
			case x.method == "":
				x.method, x.uri, _ = strings.Cut(line, " ")
			case err == nil && x.status == 0:
				x.status = status
			case isHeader && line[0] != '{' && x.status == 0:
				x.header[name] = value
			case isHeader && line[0] != '{':
				x.answerHeader[name] = value
			case x.status == 0:
				x.body = line
			default:
				x.answer = line
			}
		}
		all = append(all, x)
	}
	return all
}

// The conversation in the documentation is what happens.
func TestDocumentedConversation(t *testing.T) {
	t.Parallel()
	told := exchanges(t)
	var mu sync.Mutex
	next := 0
	s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(told) {
			w.WriteHeader(500)
			return
		}
		x := told[next]
		next++
		if got := r.Method + " " + r.RequestURI; got != x.method+" "+x.uri {
			t.Errorf("request %d is %s, documented is %s %s", next, got, x.method, x.uri)
		}
		for name, want := range x.header {
			if got := r.Header.Get(name); got != want {
				t.Errorf("request %d has %s: %s, documented is %s", next, name, got, want)
			}
		}
		reply(w, x.status, x.answerHeader, x.answer)
	})
	e := s.executor(s.polled)
	req := request(key)
	req.DeadlineAtMs = 4102444800000
	h, err := e.Submit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.requests()[0].Body; got != told[0].body {
		t.Errorf("the input is %s, documented is %s", got, told[0].body)
	}
	obs := observe(t, e, h)
	if obs.State != tool.StateRunning || obs.Progress == nil || *obs.Progress != 40 || obs.Stage != "tiling" || obs.NextInMs != 5000 {
		t.Errorf("observation = %s", dump(obs))
	}
	found, ok, err := e.Find(t.Context(), key)
	if err != nil || !ok || found.ID != h.ID {
		t.Errorf("found %s, %v, %v", dump(found), ok, err)
	}
	if err := e.Cancel(t.Context(), found); err != nil {
		t.Error(err)
	}
	obs = observe(t, e, found)
	if obs.State != tool.StateSucceeded || string(obs.Result.Inline) != `{"frames":250}` || obs.LastSeenAtMs != 1767225600000 {
		t.Errorf("observation = %s", dump(obs))
	}
	if next != len(told) {
		t.Errorf("%d of %d documented requests were made", next, len(told))
	}
}
