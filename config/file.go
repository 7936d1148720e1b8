package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/wakepoint/wakepoint/domain"
	"go.yaml.in/yaml/v3"
)

// The keys of the file. A key that is added here belongs into docs/config.md; a
// test compares the two.

func (d *decoder) config(b []byte) Config {
	c := Config{File: d.file, Dir: dirOf(d.file)}
	root := d.document(b)
	if root == nil {
		return c
	}
	d.mapping(root, "", []field{
		{"tenant", d.word(&c.Tenant)},
		{"taskQueue", d.word(&c.TaskQueue)},
		{"dataDir", d.word(&c.DataDir)},
		{"secret", d.secret(&c.Secret)},
		{"blobs", d.word(&c.Blobs)},
		{"maxTTL", d.duration(&c.MaxTTL)},
		{"resultTTL", d.duration(&c.ResultTTL)},
		{"fairnessWeight", d.positive(&c.FairnessWeight)},
		{"sweep", func(n *yaml.Node, path string) {
			d.mapping(n, path, []field{{"every", d.duration(&c.SweepEvery)}}, true)
		}},
		{"targets", func(n *yaml.Node, path string) {
			d.entries(n, path, true, func(name string, _ place, v *yaml.Node) {
				c.Targets = append(c.Targets, d.target(name, v, join(path, name)))
			})
		}},
		{"tools", func(n *yaml.Node, path string) {
			d.entries(n, path, true, func(name string, _ place, v *yaml.Node) {
				c.Tools = append(c.Tools, d.tool(name, v, join(path, name)))
			})
		}},
		{"runs", func(n *yaml.Node, path string) { d.mapping(n, path, c.Runs.terms().keys(d), true) }},
		{"runtimes", func(n *yaml.Node, path string) {
			d.entries(n, path, true, func(name string, _ place, v *yaml.Node) {
				c.Runtimes = append(c.Runtimes, d.runtime(name, v, join(path, name)))
			})
		}},
	}, true)
	return c
}

func (d *decoder) secret(into *SecretRef) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		target, ok := d.resolve(n, path)
		if !ok {
			return
		}
		if target.Kind != yaml.MappingNode {
			d.fail(path, "must name the secret, by {env: NAME} or {file: PATH}; the secret itself does not belong here")
			return
		}
		d.mapping(target, path, []field{{"env", d.text(&into.Env)}, {"file", d.text(&into.File)}}, false)
	}
}

func (d *decoder) target(name string, n *yaml.Node, path string) Target {
	t := Target{Name: name}
	d.mapping(n, path, []field{
		{"url", d.word(&t.URL)},
		{"askURL", d.word(&t.AskURL)},
		{"secret", d.secret(&t.Secret)},
		{"timeout", d.duration(&t.Timeout)},
		{"allowHTTP", d.boolean(&t.AllowHTTP)},
	}, true)
	return t
}

func (d *decoder) tool(name string, n *yaml.Node, path string) Tool {
	t := Tool{Name: name}
	p := &t.Policy
	d.mapping(n, path, []field{
		{"title", d.text(&t.Title)},
		{"description", d.text(&t.Description)},
		{"version", d.word(&t.Version)},
		{"executor", d.word(&t.Executor)},
		{"inputSchema", d.schema(&t.InputSchema)},
		{"ttl", d.duration(&t.TTL)},
		{"maxTTL", d.duration(&t.MaxTTL)},
		{"maxAttempts", d.integer(&t.MaxAttempts, 1)},
		{"resultTTL", d.duration(&t.ResultTTL)},
		{"effects", wordAs(d, &p.Effects)},
		{"onUnknown", wordAs(d, &p.OnUnknown)},
		{"backoff", d.backoff(&p.Backoff)},
		{"lease", d.millis(&p.LeaseMs)},
		{"stall", d.millis(&p.StallMs)},
		{"cancelGrace", d.millis(&p.CancelGraceMs)},
		{"late", func(n *yaml.Node, path string) {
			d.mapping(n, path, []field{{"policy", wordAs(d, &p.LatePolicy)}, {"grace", d.millis(&p.GraceMs)}}, true)
		}},
		{"expected", func(n *yaml.Node, path string) {
			p.Expected = &domain.Window{}
			d.mapping(n, path, []field{{"low", d.millis(&p.Expected.LowMs)}, {"high", d.millis(&p.Expected.HighMs)}}, true)
		}},
		{"strict", d.boolean(&p.Strict)},
		{"taskQueue", d.word(&t.TaskQueue)},
		{"poll", d.duration(&t.Poll)},
		{"hostLost", d.duration(&t.HostLost)},
		{"priority", d.integer(&t.Priority, 1)},
		{"targets", d.texts(&t.Targets)},
		{"maxConcurrent", d.integer(&t.MaxConcurrent, 1)},
		{"rate", d.rate(&t.Rate)},
		{"cache", func(n *yaml.Node, path string) {
			t.Cache = &Cache{}
			d.mapping(n, path, []field{{"ttl", d.duration(&t.Cache.TTL)}}, true)
		}},
		{"compensate", d.word(&t.Compensate)},
		{"approval", d.word(&t.Approval)},
		{"approvalTTL", d.duration(&t.ApprovalTTL)},
		{"exec", section(&t.Exec, d.exec)},
		{"http", section(&t.HTTP, d.http)},
		{"activity", section(&t.Activity, d.activity)},
		{"workflow", section(&t.Workflow, d.workflow)},
		{"go", section(&t.Go, d.function)},
	}, true)
	return t
}

func (d *decoder) backoff(into *domain.Backoff) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d.mapping(n, path, []field{
			{"initial", d.millis(&into.InitialMs)},
			{"factor", d.number(&into.Factor)},
			{"max", d.millis(&into.MaxMs)},
			{"jitter", d.number(&into.Jitter)},
		}, true)
	}
}

func (d *decoder) exec(e *ExecTool, n *yaml.Node, path string) {
	d.mapping(n, path, []field{
		{"argv", d.texts(&e.Argv)},
		{"dir", d.word(&e.Dir)},
		{"env", d.texts(&e.Env)},
		{"set", func(n *yaml.Node, path string) {
			d.entries(n, path, true, func(name string, _ place, v *yaml.Node) {
				set := EnvVar{Name: name}
				d.text(&set.Value)(v, join(path, name))
				e.Set = append(e.Set, set)
			})
		}},
		{"maxOutput", d.size(&e.MaxOutputBytes)},
		{"maxResult", d.size(&e.MaxResultBytes)},
		{"onOutputLimit", d.word(&e.OnOutputLimit)},
		{"killGrace", d.duration(&e.KillGrace)},
		{"retryExitCodes", d.integers(&e.RetryExitCodes)},
		{"resultContentType", d.word(&e.ResultContentType)},
	}, true)
}

// schema turns a JSON Schema that is written in YAML into JSON.
func (d *decoder) schema(into *json.RawMessage) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		before := len(d.errs)
		var b bytes.Buffer
		d.json(&b, n, path)
		if len(d.errs) == before {
			*into = b.Bytes()
		}
	}
}

// json writes a node as JSON, members in the order of the file.
func (d *decoder) json(b *bytes.Buffer, n *yaml.Node, path string) {
	n, ok := d.resolve(n, path)
	if !ok {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		sep := byte('{')
		d.entries(n, path, true, func(key string, _ place, v *yaml.Node) {
			b.WriteByte(sep)
			b.Write(jsonText(key))
			b.WriteByte(':')
			d.json(b, v, join(path, key))
			sep = ','
		})
		if sep == '{' {
			b.WriteByte(sep)
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, el := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			d.json(b, el, fmt.Sprintf("%s[%d]", path, i))
		}
		b.WriteByte(']')
	case yaml.ScalarNode, yaml.AliasNode, yaml.DocumentNode:
		d.jsonScalar(b, n, path)
	}
}

func (d *decoder) jsonScalar(b *bytes.Buffer, n *yaml.Node, path string) {
	switch n.Tag {
	case "!!null":
		b.WriteString("null")
	case "!!bool":
		var v bool
		if err := n.Decode(&v); err != nil {
			d.fail(path, "must be true or false")
		}
		b.WriteString(strconv.FormatBool(v))
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			b.WriteString(n.Value)
			return
		}
		var v float64
		if err := n.Decode(&v); err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			d.fail(path, "must be a number that JSON can hold")
			return
		}
		b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	default:
		b.Write(jsonText(n.Value))
	}
}

func jsonText(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // impossible for a string
		return []byte(`""`)
	}
	return b
}
