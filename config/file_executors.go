package config

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The keys of the executors that are not commands, and of the limits of a tool.

func (d *decoder) http(h *HTTPTool, n *yaml.Node, path string) {
	d.mapping(n, path, []field{
		{"url", d.word(&h.URL)},
		{"allowHTTP", d.boolean(&h.AllowHTTP)},
		{"headers", func(n *yaml.Node, path string) {
			d.entries(n, path, true, func(name string, _ place, v *yaml.Node) {
				h.Headers = append(h.Headers, d.header(name, v, join(path, name)))
			})
		}},
		{"keyHeader", d.word(&h.KeyHeader)},
		{"idempotent", d.boolean(&h.Idempotent)},
		{"timeout", d.duration(&h.Timeout)},
		{"find", func(n *yaml.Node, path string) {
			d.mapping(n, path, []field{{"url", d.word(&h.FindURL)}, {"sure", d.boolean(&h.FindSure)}}, true)
			d.given(h.FindURL, join(path, "url"))
		}},
		{"status", func(n *yaml.Node, path string) {
			d.mapping(n, path, []field{{"url", d.word(&h.StatusURL)}}, true)
			d.given(h.StatusURL, join(path, "url"))
		}},
		{"cancel", func(n *yaml.Node, path string) {
			d.mapping(n, path, []field{{"url", d.word(&h.CancelURL)}, {"method", d.word(&h.CancelMethod)}, {"none", d.boolean(&h.NoCancel)}}, true)
		}},
		{"list", func(n *yaml.Node, path string) {
			d.mapping(n, path, []field{{"url", d.word(&h.ListURL)}}, true)
			d.given(h.ListURL, join(path, "url"))
		}},
		{"callback", d.boolean(&h.Callback)},
		{"fields", func(n *yaml.Node, path string) {
			d.mapping(n, path, h.Fields.keys(d), true)
		}},
		{"states", func(n *yaml.Node, path string) {
			s := &h.States
			d.mapping(n, path, []field{
				{"running", d.texts(&s.Running)}, {"succeeded", d.texts(&s.Succeeded)}, {"failed", d.texts(&s.Failed)}, {"cancelled", d.texts(&s.Cancelled)},
			}, true)
		}},
		{"maxResult", d.size(&h.MaxResultBytes)},
	}, true)
}

func (f *HTTPFields) keys(d *decoder) []field {
	all := f.all()
	keys := make([]field, len(all))
	for i, p := range all {
		keys[i] = field{p.name, d.pointer(p.value)}
	}
	return keys
}

// pointer reads a JSON pointer. An empty one would be taken for none.
func (d *decoder) pointer(into *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if d.text(into)(n, path); *into == "" && !d.consequence(path) {
			d.fail(path, "must not be empty: the whole document cannot be meant")
		}
	}
}

// header reads a value, or where a secret is. What stands in place of the latter is
// never shown.
func (d *decoder) header(name string, n *yaml.Node, path string) Header {
	h := Header{Name: name}
	target, ok := d.resolve(n, path)
	switch {
	case !ok:
	case target.Kind == yaml.MappingNode:
		d.mapping(target, path, []field{{"env", d.text(&h.Secret.Env)}, {"file", d.text(&h.Secret.File)}, {"prefix", d.text(&h.Prefix)}}, false)
		if h.Secret.IsZero() && !d.consequence(path+".env") && !d.consequence(path+".file") {
			d.fail(path, "must be a value, or name where it is by env or file")
		}
	case target.Kind == yaml.ScalarNode && !absent(target):
		h.Value = target.Value
	default:
		d.fail(path, "must be a value, or name where it is by {env: NAME} or {file: PATH}")
	}
	return h
}

func (d *decoder) activity(a *ActivityTool, n *yaml.Node, path string) {
	d.mapping(n, path, []field{
		{"type", d.word(&a.Type)},
		{"taskQueue", d.word(&a.TaskQueue)},
		{"startToClose", d.duration(&a.StartToClose)},
		{"heartbeat", d.duration(&a.Heartbeat)},
		{"args", d.word(&a.Args)},
	}, true)
}

func (d *decoder) workflow(w *WorkflowTool, n *yaml.Node, path string) {
	d.mapping(n, path, []field{
		{"type", d.word(&w.Type)},
		{"taskQueue", d.word(&w.TaskQueue)},
		{"progressQuery", d.word(&w.ProgressQuery)},
		{"args", d.word(&w.Args)},
	}, true)
}

func (d *decoder) function(g *GoTool, n *yaml.Node, path string) {
	d.mapping(n, path, []field{{"function", d.word(&g.Function)}, {"heartbeat", d.duration(&g.Heartbeat)}}, true)
}

// section makes the section of an executor when it is there, be it empty.
func section[T any](into **T, read func(*T, *yaml.Node, string)) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		*into = new(T)
		read(*into, n, path)
	}
}

// rateUnits are the times of a [Rate].
var rateUnits = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

func (d *decoder) rate(into *Rate) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		const form = "a rate such as 10/s, 100/m or 5/h"
		s, ok := d.scalar(n, path, form)
		if !ok {
			return
		}
		number, unit, _ := strings.Cut(s, "/")
		limit, err := strconv.ParseFloat(number, 64)
		for _, u := range rateUnits {
			if u.name == unit && err == nil && plainNumber(number) {
				*into = Rate{Limit: limit, Per: u.per}
			}
		}
		switch {
		case into.Per == 0:
			d.fail(path, "must be %s, not %s", form, quote(s))
		case limit == 0:
			d.fail(path, "must be more than 0")
		}
	}
}

// String is the form of the file; empty for no limit.
func (r Rate) String() string {
	if r.PerSecond() == 0 {
		return ""
	}
	unit := r.Per.String()
	for _, u := range rateUnits {
		if u.per == r.Per {
			unit = u.name
		}
	}
	return strconv.FormatFloat(r.Limit, 'f', -1, 64) + "/" + cmp.Or(unit, "s")
}
