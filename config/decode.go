package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// place is where something stands in the file.
type place struct{ line, column int }

// decoder walks the nodes of a file. It goes on after a mistake, so that one run
// shows all of them, and it knows where every key stands, so that mistakes which
// are found later have a place as well.
type decoder struct {
	file   string
	errs   Errors
	places map[string]place
	// unread are the keys whose values could not be read.
	unread []string
	// nodes counts what was walked: aliases can make a small file endless.
	nodes int
	// broken says that there is nothing worth checking any further.
	broken bool
}

// maxNodes and maxPath bound the walk: aliases can repeat each other without end,
// and an alias may lead to what it stands in.
const (
	maxNodes = 1 << 16
	maxPath  = 4 << 10
)

func newDecoder(file string) *decoder {
	return &decoder{file: file, places: make(map[string]place)}
}

// fail reports a value that cannot be read.
func (d *decoder) fail(key, format string, args ...any) {
	d.unread = append(d.unread, key)
	d.report(key, format, args...)
}

// consequence tells whether a mistake at a key only follows from one that is
// known: the key, or what it stands in, could not be read.
func (d *decoder) consequence(key string) bool {
	return slices.ContainsFunc(d.unread, func(unread string) bool {
		rest, ok := strings.CutPrefix(key, unread)
		return ok && unread != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// report tells of a mistake at the place of the key, or of the nearest key above.
func (d *decoder) report(key, format string, args ...any) {
	d.failAt(nearestPlace(d.places, key), key, format, args...)
}

// nearestPlace is where a key stands, or the nearest one above.
func nearestPlace(places map[string]place, key string) place {
	at := places[key]
	for above := key; at.line == 0 && above != ""; {
		above = parent(above)
		at = places[above]
	}
	return at
}

func (d *decoder) failAt(at place, key, format string, args ...any) {
	d.errs = append(d.errs, &Error{File: d.file, Line: at.line, Column: at.column, Key: key, Rule: fmt.Sprintf(format, args...)})
}

// parent cuts the last part off a path.
func parent(key string) string {
	if i := strings.LastIndexAny(key, ".["); i > 0 {
		return key[:i]
	}
	return ""
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

var yamlLine = regexp.MustCompile(`^line (\d+): (.*)$`)

// document parses the file as YAML; nil means that it is empty or broken.
func (d *decoder) document(b []byte) *yaml.Node {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if len(b) > MaxFile {
		d.broken = true
		d.failAt(place{}, "", "must be at most %d bytes", MaxFile)
		return nil
	}
	if at, bad := firstInvalid(b); bad {
		d.broken = true
		d.failAt(at, "", "must be valid UTF-8")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		d.broken = true
		d.syntax(err)
		return nil
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		d.broken = true
		if err != nil {
			d.syntax(err)
		} else {
			d.failAt(placeOf(&second), "", "must hold one YAML document")
		}
		return nil
	}
	if len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

// syntax reports what the YAML library says. It knows lines, not columns.
func (d *decoder) syntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	at := place{1, 1}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			at.line = line
		}
		text = m[2]
	}
	d.failAt(at, "", "is no valid YAML: %s", text)
}

func firstInvalid(b []byte) (place, bool) {
	at := place{1, 1}
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1:
			return at, true
		case r == '\n':
			at = place{at.line + 1, 1}
		default:
			at.column++
		}
		b = b[size:]
	}
	return place{}, false
}

// resolve follows an alias and notes the place: of a plain value its own, of
// anything larger that of its key. False means that the walk is over.
func (d *decoder) resolve(n *yaml.Node, path string) (*yaml.Node, bool) {
	if _, ok := d.places[path]; !ok || n.Kind == yaml.ScalarNode {
		d.places[path] = placeOf(n)
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.nodes++
	if (d.nodes > maxNodes || len(path) > maxPath) && !d.broken {
		d.broken = true
		d.failAt(placeOf(n), shorten(path), "is too large or too deep, its aliases followed")
	}
	return n, !d.broken
}

// field is a key of a mapping and who reads its value.
type field struct {
	name string
	read func(n *yaml.Node, path string)
}

// mapping reads the known keys of a mapping. Whether unknown keys are shown in
// errors is up to the caller: where a secret is named, one may be a secret.
func (d *decoder) mapping(n *yaml.Node, path string, fields []field, showKeys bool) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	d.entries(n, path, showKeys, func(key string, at place, v *yaml.Node) {
		for _, f := range fields {
			if f.name == key {
				f.read(v, join(path, key))
				return
			}
		}
		if !showKeys {
			d.failAt(at, path, "must have no other keys than %s", strings.Join(names, ", "))
			return
		}
		d.failAt(at, join(path, shorten(key)), "is not a known key%s", Suggest(key, names))
	})
}

func shorten(key string) string {
	const limit = 64
	if len(key) > limit {
		return strings.ToValidUTF8(key[:limit], "") + "..."
	}
	return key
}

// entries goes through a mapping in the order of the file. Repeated keys are
// reported and not visited.
func (d *decoder) entries(n *yaml.Node, path string, showKeys bool, visit func(key string, at place, v *yaml.Node)) {
	n, ok := d.resolve(n, path)
	if !ok || absent(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fail(path, "must be a mapping, not %s", kindOf(n))
		return
	}
	seen := make(map[string]place)
	for i := 0; i+1 < len(n.Content) && !d.broken; i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			d.failAt(placeOf(k), path, "must have plain text as keys")
			continue
		}
		if k.Tag == "!!merge" {
			d.failAt(placeOf(k), path, "must not use merge keys (<<); an alias as a value is fine")
			continue
		}
		if first, dup := seen[k.Value]; dup {
			key := path
			if showKeys {
				key = join(path, shorten(k.Value))
			}
			d.failAt(placeOf(k), key, "is there twice, first in line %d", first.line)
			continue
		}
		seen[k.Value] = placeOf(k)
		d.places[join(path, k.Value)] = placeOf(k)
		visit(k.Value, placeOf(k), v)
	}
}

// absent tells whether a key has been left without a value.
func absent(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode, yaml.AliasNode, yaml.DocumentNode:
	}
	switch n.Tag {
	case "!!null":
		return "empty"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	}
	return "text"
}

// scalar gives the text of a plain value.
func (d *decoder) scalar(n *yaml.Node, path, what string) (string, bool) {
	n, ok := d.resolve(n, path)
	if !ok {
		return "", false
	}
	if n.Kind != yaml.ScalarNode || absent(n) {
		d.fail(path, "must be %s, not %s", what, kindOf(n))
		return "", false
	}
	return n.Value, true
}

func (d *decoder) text(into *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if s, ok := d.scalar(n, path, "text"); ok {
			*into = s
		}
	}
}

// word is text that says something when it is there: an empty one would count as
// absent, which may be the opposite of what was meant.
func (d *decoder) word(into *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		switch s, ok := d.scalar(n, path, "text"); {
		case ok && s == "":
			d.fail(path, "must not be empty; leave the key out for the default")
		case ok:
			*into = s
		}
	}
}

// given reports what a section is nothing without.
func (d *decoder) given(value, path string) {
	if value == "" && !d.consequence(path) {
		d.fail(path, "must be given")
	}
}

// wordAs is word for types that are strings.
func wordAs[T ~string](d *decoder, into *T) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		var s string
		d.word(&s)(n, path)
		*into = T(s)
	}
}

func (d *decoder) duration(into *time.Duration) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, "a duration such as 30s, 5m, 72h or 3d")
		if !ok {
			return
		}
		v, err := ParseDuration(s)
		switch {
		case err != nil:
			d.fail(path, "%v, not %s", err, quote(s))
		case v == 0:
			d.fail(path, "must be longer than 0")
		default:
			*into = v
		}
	}
}

// millis is duration for the domain, whose unit is the millisecond.
func (d *decoder) millis(into *int64) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		var v time.Duration
		d.duration(&v)(n, path)
		*into = v.Milliseconds()
	}
}

func (d *decoder) size(into *int64) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, "a size such as 4096, 64KiB, 10MiB or 1GiB")
		if !ok {
			return
		}
		v, err := parseSize(s)
		switch {
		case err != nil:
			d.fail(path, "%v, not %s", err, quote(s))
		case v == 0:
			d.fail(path, "must be more than 0")
		default:
			*into = v
		}
	}
}

func (d *decoder) integer(into *int, low int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, "a whole number")
		if !ok {
			return
		}
		v, err := strconv.Atoi(s)
		switch {
		case err != nil:
			d.fail(path, "must be a whole number, not %s", quote(s))
		case v < low:
			d.fail(path, "must be >= %d, it is %d", low, v)
		default:
			*into = v
		}
	}
}

func (d *decoder) integer64(into *int64, low int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		var v int
		d.integer(&v, low)(n, path)
		*into = int64(v)
	}
}

func (d *decoder) number(into *float64) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, "a number")
		if !ok {
			return
		}
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			d.fail(path, "must be a number, not %s", quote(s))
			return
		}
		*into = v
	}
}

// positive is number where 0 would be taken for none.
func (d *decoder) positive(into *float64) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		before := len(d.errs)
		d.number(into)(n, path)
		if *into == 0 && len(d.errs) == before {
			d.fail(path, "must be more than 0")
		}
	}
}

func (d *decoder) boolean(into *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		s, ok := d.scalar(n, path, "true or false")
		switch {
		case !ok:
		case s == "true" || s == "false":
			*into = s == "true"
		default:
			d.fail(path, "must be true or false, not %s", quote(s))
		}
	}
}

// list calls read for every element of a list.
func (d *decoder) list(n *yaml.Node, path string, read func(n *yaml.Node, path string)) {
	n, ok := d.resolve(n, path)
	switch {
	case !ok || absent(n):
	case n.Kind != yaml.SequenceNode:
		d.fail(path, "must be a list, not %s", kindOf(n))
	default:
		for i, el := range n.Content {
			if d.broken {
				return
			}
			read(el, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

// texts leaves nil for a key without a value and an empty list for []: the one
// asks for the default, the other for nothing.
func (d *decoder) texts(into *[]string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind == yaml.SequenceNode {
			*into = []string{}
		}
		d.list(n, path, func(n *yaml.Node, path string) {
			var s string
			d.text(&s)(n, path)
			*into = append(*into, s)
		})
	}
}

// integers tells nil from empty like texts.
func (d *decoder) integers(into *[]int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind == yaml.SequenceNode {
			*into = []int{}
		}
		d.list(n, path, func(n *yaml.Node, path string) {
			var v int
			d.integer(&v, 0)(n, path)
			*into = append(*into, v)
		})
	}
}

// dirOf is the folder that relative paths of a file start from.
func dirOf(file string) string { return filepath.Dir(file) }
