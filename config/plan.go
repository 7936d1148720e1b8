package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
)

// Plan is a declared run: a graph of tool calls that needs no agent. Make it with
// [LoadPlan] or [ParsePlan].
type Plan struct {
	// File is where it was read from.
	File string
	// Title is for people. Default: empty.
	Title string
	// TTL is the run's time to live. Default: 0, that of the installation.
	TTL time.Duration
	// Labels are for people and lists of their own. Default: none.
	Labels map[string]string
	// Limits may be lower than the installation's; only those that begin with Max count.
	// Default: none of its own.
	Limits run.Limits
	// Calls are in the order of the file. A call depends on those that its input refers
	// to, whether dependsOn names them or not.
	Calls []run.ToolCall

	places map[string]place
}

// LoadPlan reads the file of a plan; see [ParsePlan].
func LoadPlan(path string) (*Plan, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	return ParsePlan(path, b)
}

// ParsePlan reads a plan. The name stands in errors. An error about the content is an
// [Errors]. Whether its tools are declared is for [Plan.Check].
func ParsePlan(name string, b []byte) (*Plan, error) {
	d := newDecoder(name)
	p := &Plan{File: name}
	refs := d.plan(p, b)
	if !d.broken {
		d.connect(p, refs)
	}
	if len(d.errs) == 0 {
		d.graph(p)
	}
	if err := d.errs.asError(); err != nil {
		return nil, err
	}
	p.places = d.places
	return p, nil
}

// reference is one in the input of a call, and where it stands.
type reference struct {
	call int
	from string
	path string
}

// plan reads the file and gives the references of all inputs.
func (d *decoder) plan(p *Plan, b []byte) []reference {
	var refs []reference
	root := d.document(b)
	if root != nil {
		d.mapping(root, "", []field{
			{"title", d.text(&p.Title)},
			{"ttl", d.duration(&p.TTL)},
			{"labels", func(n *yaml.Node, path string) {
				p.Labels = map[string]string{}
				d.entries(n, path, true, func(name string, _ place, v *yaml.Node) {
					var value string
					d.text(&value)(v, join(path, name))
					p.Labels[name] = value
				})
			}},
			{"limits", d.limits(&p.Limits)},
			{"calls", func(n *yaml.Node, path string) {
				d.entries(n, path, true, func(name string, _ place, v *yaml.Node) {
					c, found := d.call(name, v, join(path, name))
					for _, r := range found {
						r.call = len(p.Calls)
						refs = append(refs, r)
					}
					p.Calls = append(p.Calls, c)
				})
			}},
		}, true)
	}
	if len(p.Calls) == 0 && len(d.errs) == 0 {
		d.report("calls", "must have at least one call")
	}
	return refs
}

func (d *decoder) call(id string, n *yaml.Node, path string) (run.ToolCall, []reference) {
	c := run.ToolCall{ToolCallID: id}
	var refs []reference
	d.mapping(n, path, []field{
		{"tool", d.word(&c.Tool)},
		{"input", func(n *yaml.Node, path string) {
			if !absent(n) {
				d.schema(&c.Input)(n, path)
				refs = d.references(n, path, nil)
			}
		}},
		{"dependsOn", d.texts(&c.DependsOn)},
		{"wait", d.millis(&c.WaitMs)},
		{"ttl", d.millis(&c.TTLMs)},
		{"key", d.word(&c.IdempotencyKey)},
	}, true)
	if !d.broken {
		d.given(c.Tool, join(path, "tool"))
	}
	return c, refs
}

// references finds what an input refers to. Each is read by the rules of the run, so that
// the two cannot differ.
func (d *decoder) references(n *yaml.Node, path string, refs []reference) []reference {
	n, ok := d.resolve(n, path)
	if !ok {
		return refs
	}
	if n.Kind == yaml.SequenceNode {
		for i, el := range n.Content {
			refs = d.references(el, fmt.Sprintf("%s[%d]", path, i), refs)
		}
	}
	if n.Kind != yaml.MappingNode {
		return refs
	}
	if !slices.ContainsFunc(memberNames(n), func(k string) bool { return k == "$from" }) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			refs = d.references(n.Content[i+1], join(path, n.Content[i].Value), refs)
		}
		return refs
	}
	var b bytes.Buffer
	before := len(d.errs)
	if d.json(&b, n, path); len(d.errs) > before {
		// What is wrong with it was said when the input was read.
		d.errs = d.errs[:before]
		return refs
	}
	found, err := run.References(b.Bytes())
	switch {
	case err != nil:
		d.report(path, "%s", err.Error())
	case len(found) == 1:
		refs = append(refs, reference{from: found[0].From, path: join(path, "$from")})
	}
	return refs
}

func memberNames(n *yaml.Node) []string {
	var keys []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		keys = append(keys, n.Content[i].Value)
	}
	return keys
}

// connect checks what calls depend on and adds what their inputs refer to.
func (d *decoder) connect(p *Plan, refs []reference) {
	var ids []string
	for _, c := range p.Calls {
		ids = append(ids, c.ToolCallID)
	}
	known := func(i int, id, path string) bool {
		switch {
		case id == p.Calls[i].ToolCallID:
			d.report(path, "must be another call than the call itself")
		case !slices.Contains(ids, id):
			d.report(path, "must be a call of this plan, %s is none%s", quote(id), Suggest(id, others(ids, p.Calls[i].ToolCallID)))
		default:
			return true
		}
		return false
	}
	for i := range p.Calls {
		c := &p.Calls[i]
		for j, id := range c.DependsOn {
			path := fmt.Sprintf("calls.%s.dependsOn[%d]", c.ToolCallID, j)
			if known(i, id, path) && slices.Contains(c.DependsOn[:j], id) {
				d.report(path, "is there twice")
			}
		}
	}
	for _, r := range refs {
		c := &p.Calls[r.call]
		if known(r.call, r.from, r.path) && !slices.Contains(c.DependsOn, r.from) {
			c.DependsOn = append(c.DependsOn, r.from)
		}
	}
}

func others(ids []string, id string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(x string) bool { return x == id })
}

// graph holds the plan against the rules of the run and says where in the file they are
// broken.
func (d *decoder) graph(p *Plan) {
	err := run.CheckPlan(p.Calls)
	var invalid *domain.InvalidError
	switch {
	case err == nil:
	case !errors.As(err, &invalid):
		d.report("calls", "%s", err.Error())
	default:
		d.report(p.keyOf(invalid), "%s", strings.ReplaceAll(invalid.Rule, "tool calls", "calls"))
	}
}

// keyOf is the key in the file that a rule about the calls means.
func (p *Plan) keyOf(e *domain.InvalidError) string {
	names := map[string]string{"waitMs": "wait", "ttlMs": "ttl", "idempotencyKey": "key", "toolCallId": ""}
	for i, c := range p.Calls {
		at := "calls." + c.ToolCallID
		if rest, ok := strings.CutPrefix(e.Field, fmt.Sprintf("plan[%d].", i)); ok {
			if name, renamed := names[rest]; renamed {
				rest = name
			}
			return strings.TrimSuffix(at+"."+rest, ".")
		}
		if strings.Contains(e.Rule, ": "+c.ToolCallID+" -> ") {
			return at + ".dependsOn"
		}
	}
	return "calls"
}

// Check holds the plan against an installation: are the tools declared, and is input
// that refers to nothing what they take? An error is an [Errors].
func (p *Plan) Check(c *Config) error {
	known := []string{run.ToolAsk, run.ToolApprove, run.ToolRun}
	for _, t := range c.Tools {
		known = append(known, t.Name)
	}
	var errs Errors
	add := func(key, format string, args ...any) {
		at := nearestPlace(p.places, key)
		errs = append(errs, &Error{File: p.File, Line: at.line, Column: at.column, Key: key, Rule: fmt.Sprintf(format, args...)})
	}
	for _, call := range p.Calls {
		key := "calls." + call.ToolCallID
		if !slices.Contains(known, call.Tool) {
			add(key+".tool", "must be a declared tool, %s is none%s", quote(call.Tool), Suggest(call.Tool, known))
			continue
		}
		t, declared := c.Tool(call.Tool)
		if refs, err := run.References(call.Input); !declared || err != nil || len(refs) > 0 {
			continue
		}
		input := call.Input
		if len(input) == 0 {
			input = json.RawMessage("{}")
		}
		var invalid *domain.InvalidError
		if err := t.ValidateInput(input); errors.As(err, &invalid) {
			add(key+"."+invalid.Field, "%s", invalid.Rule)
		} else if err != nil {
			add(key+".input", "%s", err.Error())
		}
	}
	return errs.asError()
}
