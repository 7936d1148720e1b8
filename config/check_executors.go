package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Limits of what is declared about executors and of a tool's own limits.
const (
	maxHeader        = 8 << 10
	maxPointer       = 256
	maxType          = 255
	maxConcurrentMax = 10_000
	// maxRate is in jobs a second, minRate one job in a day: the engine takes less
	// for none at all.
	maxRate = 100_000
	minRate = 1.0 / 86_400
)

func (t *Tool) checkExecutor(p *problems, key string) {
	var given []string
	for _, s := range t.sections() {
		if s.given {
			given = append(given, s.executor)
		}
	}
	switch {
	case len(given) > 1:
		p.add(key, "must have one of the sections %s: they are executors, and a tool has one", strings.Join(given, ", "))
	case t.Executor == "":
		p.add(key+".executor", "must be given: external, the name of a registered one, or a section exec, http, activity, workflow or go")
	case len(given) == 1 && given[0] != t.Executor:
		p.add(key+"."+given[0], "belongs to executor %s, this one is %s", given[0], quote(t.Executor))
	case len(given) == 0 && t.needsSection():
		p.add(key+"."+t.Executor, "must be given for executor %s: %s", t.Executor, sectionMeaning[t.Executor])
	default:
		p.name(key+".executor", t.Executor)
	}
}

// sectionMeaning says what a section tells.
var sectionMeaning = map[string]string{
	ExecutorExec: "the command to run", ExecutorHTTP: "the service to ask", ExecutorActivity: "the activity to run",
	ExecutorWorkflow: "the workflow to run", ExecutorGo: "the function to call",
}

func (t *Tool) needsSection() bool { return sectionMeaning[t.Executor] != "" }

func (t *Tool) checkSections(p *problems, key string) {
	if t.Exec != nil {
		t.Exec.check(p, key+".exec")
	}
	if t.HTTP != nil {
		t.HTTP.check(p, key+".http")
	}
	if a := t.Activity; a != nil {
		p.foreign(key+".activity", a.Type, a.TaskQueue, a.Args)
		if a.StartToClose != 0 {
			p.atLeast(key+".activity.startToClose", a.StartToClose, time.Second)
		}
		if a.Heartbeat != 0 {
			p.atLeast(key+".activity.heartbeat", a.Heartbeat, minLease)
		}
	}
	if w := t.Workflow; w != nil {
		p.foreign(key+".workflow", w.Type, w.TaskQueue, w.Args)
		p.text(key+".workflow.progressQuery", w.ProgressQuery, maxType)
	}
	if t.Go != nil {
		if t.Go.Function == "" {
			p.add(key+".go.function", "must be given: the name under which the worker's program registers it")
		} else {
			p.name(key+".go.function", t.Go.Function)
		}
		p.atLeast(key+".go.heartbeat", t.Go.Heartbeat, minLease)
	}
}

// foreign checks what runs on somebody else's worker.
func (p *problems) foreign(key, kind, queue, args string) {
	if strings.TrimSpace(kind) == "" {
		p.add(key+".type", "must be given: the type under which the other worker registers it")
	}
	p.text(key+".type", kind, maxType)
	if queue == "" {
		p.add(key+".taskQueue", "must be given: where the other worker works")
	} else {
		p.queue(key+".taskQueue", queue)
	}
	if args != ArgsOne && args != ArgsSpread {
		p.add(key+".args", "must be one or spread, not %s", quote(args))
	}
}

func (t *Tool) checkLimits(p *problems, key string) {
	if t.Executor == ExecutorExternal {
		const why = "is for tools whose jobs we submit; the work of an external one begins outside"
		if t.MaxConcurrent != 0 {
			p.add(key+".maxConcurrent", why)
		}
		if t.Rate != (Rate{}) {
			p.add(key+".rate", why)
		}
	}
	if t.MaxConcurrent < 0 || t.MaxConcurrent > maxConcurrentMax {
		p.add(key+".maxConcurrent", "must be 1 to %d, it is %d", maxConcurrentMax, t.MaxConcurrent)
	}
	if r := t.Rate.PerSecond(); t.Rate != (Rate{}) && (r < minRate || r > maxRate) {
		p.add(key+".rate", "must be one a day to %d/s", maxRate)
	}
	switch {
	case t.Cache == nil:
	case t.Cache.TTL == 0:
		p.add(key+".cache.ttl", "must be given: how long a result serves equal calls")
	case t.Cache.TTL > t.ResultTTL:
		p.add(key+".cache.ttl", "must be at most resultTTL, %s; it is %s", FormatDuration(t.ResultTTL), FormatDuration(t.Cache.TTL))
	default:
		p.atLeast(key+".cache.ttl", t.Cache.TTL, time.Second)
	}
}

// checkQueues sees to it that nothing but submissions comes to the queue of a tool
// with limits, and that work for somebody else's worker does not come to ours.
func (c *Config) checkQueues(p *problems) {
	ours := map[string]string{c.TaskQueue: "the installation's own"}
	limits := make(map[string]string)
	for i := range c.Tools {
		t := &c.Tools[i]
		if _, there := ours[t.TaskQueue]; !there {
			ours[t.TaskQueue] = "that of tool " + t.Name
		}
		if q := t.SubmitQueue(); q != "" && limits[q] == "" {
			limits[q] = t.Name
		} else if q != "" && limits[q] != t.Name {
			p.add(join("tools", t.Name), "has limits on the task queue %s, as tool %s has; name one of them or its taskQueue otherwise", q, limits[q])
		}
	}
	if tool := limits[c.TaskQueue]; tool != "" {
		p.add("taskQueue", "must not be the one that the limits of tool %s need for themselves", tool)
	}
	for i := range c.Tools {
		t := &c.Tools[i]
		key := join("tools", t.Name)
		if tool := limits[t.TaskQueue]; tool != "" && t.TaskQueue != c.TaskQueue {
			p.add(key+".taskQueue", "must not be the one that the limits of tool %s need for themselves", tool)
		}
	}
	for _, f := range c.ForeignQueues() {
		switch q := f.TaskQueue; {
		case ours[q] != "":
			p.add(f.Key, "must be that of the worker that knows %s; %s is %s, whose workers do not", f.knows, quote(q), ours[q])
		case limits[q] != "":
			p.add(f.Key, "must not be the one that the limits of tool %s need for themselves", limits[q])
		}
	}
}

// ForeignQueue is a task queue of somebody else's worker.
type ForeignQueue struct {
	// Key is where it is declared, such as tools.count.activity.taskQueue.
	Key       string
	TaskQueue string
	// Of is whose work is done there, such as "tool count".
	Of string

	knows string
}

// ForeignQueues lists where the work of tools and runtimes is done by workers that are
// not Wakepoint's: what comes there would fail on one of ours.
func (c *Config) ForeignQueues() []ForeignQueue {
	const theType = "the type"
	var all []ForeignQueue
	for _, t := range c.Tools {
		f := ForeignQueue{Of: "tool " + t.Name, knows: theType}
		switch {
		case t.Activity != nil:
			f.Key, f.TaskQueue = ".activity.taskQueue", t.Activity.TaskQueue
		case t.Workflow != nil:
			f.Key, f.TaskQueue = ".workflow.taskQueue", t.Workflow.TaskQueue
		default:
			continue
		}
		f.Key = join("tools", t.Name) + f.Key
		all = append(all, f)
	}
	for _, r := range c.Runtimes {
		if r.Activity != nil {
			all = append(all, ForeignQueue{
				Key: join("runtimes", r.Name) + ".activity.taskQueue", TaskQueue: r.Activity.TaskQueue, Of: "runtime " + r.Name, knows: protocol.ActivityAgentStep,
			})
		}
	}
	return all
}

// checkCompensation follows each tool to what undoes it, and that to what undoes
// that.
func (c *Config) checkCompensation(p *problems) {
	for i := range c.Tools {
		t := &c.Tools[i]
		if t.Compensate == "" {
			continue
		}
		key := join("tools", t.Name) + ".compensate"
		other, ok := c.Tool(t.Compensate)
		switch {
		case t.Policy.Effects != domain.EffectsUnsafe:
			p.add(key, "is for tools with effects: unsafe; others are repeated after an ambiguous loss")
		case t.Policy.OnUnknown == domain.UnknownFail:
			p.add(key, "is for tools with onUnknown: manual; one that fails at once has nothing undone")
		case !ok:
			var known []string
			for _, k := range c.Tools {
				known = append(known, k.Name)
			}
			p.add(key, "must name a declared tool, %s is none%s", quote(t.Compensate), Suggest(t.Compensate, known))
		case other.Name == t.Name:
			p.add(key, "must name another tool: one cannot undo itself")
		case other.Executor == ExecutorExternal:
			p.add(key, "must name a tool that is run here, %s is external", quote(t.Compensate))
		case c.undoneBy(*t, t.Name):
			p.add(key, "leads back to this tool; what undoes must end somewhere")
		}
	}
}

// undoneBy follows a tool's compensation, and tells whether it leads to the name. A
// circle further on is not this tool's mistake.
func (c *Config) undoneBy(t Tool, name string) bool {
	for range c.Tools {
		next, ok := c.Tool(t.Compensate)
		if !ok {
			return false
		}
		if next.Name == name {
			return true
		}
		t = next
	}
	return false
}

func (h *HTTPTool) check(p *problems, key string) {
	p.template(key+".url", h.URL, h.AllowHTTP, "", "must be given: where jobs are submitted")
	p.template(key+".find.url", h.FindURL, h.AllowHTTP, "{key}", "")
	p.template(key+".status.url", h.StatusURL, h.AllowHTTP, "{id}", "")
	p.template(key+".cancel.url", h.CancelURL, h.AllowHTTP, "{id}", "")
	p.template(key+".list.url", h.ListURL, h.AllowHTTP, "", "")
	if h.FindSure && h.FindURL == "" {
		p.add(key+".find.sure", "needs find.url: it says what the answer of that is worth")
	}
	switch {
	case h.NoCancel && h.CancelURL != "":
		p.add(key+".cancel.none", "contradicts cancel.url")
	case h.NoCancel && h.CancelMethod != "":
		p.add(key+".cancel.none", "contradicts cancel.method")
	case !h.NoCancel && !slices.Contains([]string{"DELETE", "POST", "PUT", "PATCH"}, h.CancelMethod):
		p.add(key+".cancel.method", "must be DELETE, POST, PUT or PATCH, not %s", quote(h.CancelMethod))
	}
	p.atLeast(key+".timeout", h.Timeout, 100*time.Millisecond)
	if h.Timeout > MaxHTTPTimeout {
		p.add(key+".timeout", "must be at most %s, it is %s", FormatDuration(MaxHTTPTimeout), FormatDuration(h.Timeout))
	}
	if h.MaxResultBytes < 0 {
		p.add(key+".maxResult", "must not be negative")
	}
	for _, f := range h.Fields.all() {
		p.pointer(key+".fields."+f.name, *f.value)
	}
	h.checkHeaders(p, key)
	h.States.check(p, key+".states")
}

var braces = regexp.MustCompile(`\{[^{}]*\}?|\}`)

// template checks a URL that may have to hold a placeholder.
func (p *problems) template(key, raw string, allowHTTP bool, placeholder, required string) {
	if raw == "" {
		if required != "" {
			p.add(key, "%s", required)
		}
		return
	}
	held := false
	for _, b := range braces.FindAllString(raw, -1) {
		switch {
		case placeholder == "":
			p.add(key, "must have no placeholders; write { as %%7B")
			return
		case b != placeholder:
			p.add(key, "must have no placeholder but %s; write { as %%7B", placeholder)
			return
		}
		held = true
	}
	if placeholder != "" && !held {
		p.add(key, "must hold %s, which stands for the job's %s", placeholder, strings.Trim(placeholder, "{}"))
		return
	}
	if u, err := url.Parse(raw); err == nil && strings.Contains(u.Host, "{") {
		p.add(key, "must not have %s in its host", placeholder)
		return
	}
	p.url(key, raw, allowHTTP)
}

// pointer checks the form of RFC 6901, section 3.
func (p *problems) pointer(key, s string) {
	switch {
	case !strings.HasPrefix(s, "/"):
		p.add(key, "must be a JSON pointer such as /job/state (RFC 6901), not %s", quote(s))
	case len(s) > maxPointer:
		p.add(key, "must be at most %d bytes, it has %d", maxPointer, len(s))
	case strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(s), "~"):
		p.add(key, "must have ~0 for a tilde and ~1 for a slash in a name (RFC 6901), not %s", quote(s))
	}
}

// headerName is a token of RFC 9110, section 5.6.2.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")

// ownHeaders are those that belong to the connection, to the body (RFC 9110, sections
// 7 and 8) or, by their prefix, to the executor; secretHeaders those whose value is a
// secret by their meaning.
var (
	ownHeaders = []string{
		"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}
	ownPrefix     = "wakepoint-"
	secretHeaders = []string{"Authorization", "Proxy-Authorization", "Cookie"}
)

func ownHeader(name string) bool {
	return foldedIn(ownHeaders, name) || strings.HasPrefix(strings.ToLower(name), ownPrefix)
}

func (h *HTTPTool) checkHeaders(p *problems, key string) {
	if !headerName.MatchString(h.KeyHeader) || ownHeader(h.KeyHeader) || foldedIn(secretHeaders, h.KeyHeader) {
		p.add(key+".keyHeader", "must be the name of a header that can carry the key")
	}
	var seen []string
	for _, header := range h.Headers {
		at := join(key+".headers", header.Name)
		switch {
		case !headerName.MatchString(header.Name):
			p.add(at, "must be the name of a header")
		case foldedIn(seen, header.Name):
			p.add(at, "is there twice; case does not count")
		case ownHeader(header.Name):
			p.add(at, "is set by the executor")
		case strings.EqualFold(header.Name, h.KeyHeader):
			p.add(at, "is the keyHeader, which carries the key")
		}
		seen = append(seen, header.Name)
		header.check(p, at)
	}
}

// check quotes neither the value nor the prefix.
func (h Header) check(p *problems, key string) {
	switch {
	case h.Value != "" && (h.Prefix != "" || !h.Secret.IsZero()):
		p.add(key, "must have either a value or a secret, not both")
	case h.Prefix != "" && h.Secret.IsZero():
		p.add(key+".prefix", "needs env or file beside it")
	case h.Secret.IsZero() && foldedIn(secretHeaders, h.Name):
		p.add(key, "must name where its value is, by {env: NAME} or {file: PATH}; the secret itself does not belong here")
	case len(h.Value) > maxHeader || len(h.Prefix) > maxHeader:
		p.add(key, "must be at most %d bytes", maxHeader)
	case !headerText(h.Value) || !headerText(h.Prefix):
		p.add(key, "must be one line without control characters")
	}
	h.Secret.check(p, key)
}

func headerText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func foldedIn(list []string, s string) bool {
	return slices.ContainsFunc(list, func(one string) bool { return strings.EqualFold(one, s) })
}

// check wants every word once: one that is twice means two states. Defaults are read
// first, so that a mistake lies where somebody wrote a word.
func (s *HTTPStates) check(p *problems, key string) {
	meaning := make(map[string]string)
	byDefault := func(l httpState) bool { return slices.Equal(*l.words, l.byDefault) }
	for _, list := range s.all() {
		if byDefault(list) {
			for _, word := range list.byDefault {
				meaning[word] = list.name
			}
		}
	}
	for _, list := range s.all() {
		if byDefault(list) {
			continue
		}
		for i, word := range *list.words {
			at := fmt.Sprintf("%s.%s[%d]", key, list.name, i)
			folded := strings.ToLower(word)
			switch first, ok := meaning[folded]; {
			case strings.TrimSpace(word) == "":
				p.add(at, "must not be blank")
			case ok && first == list.name:
				p.add(at, "is there twice: %s", quote(word))
			case ok:
				p.add(at, "means %s already: %s", first, quote(word))
			default:
				meaning[folded] = list.name
			}
		}
	}
}
