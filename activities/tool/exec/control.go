package exec

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// controlPrefix begins a line of stdout by which the tool speaks to us and not to its reader:
//
//	::wakepoint progress=42 stage="linking the kernel"
//	::wakepoint {"progress": 42, "stage": "linking the kernel"}
//
// Fields that we do not know are ignored. A line that is not of this form is output, so that
// its author sees it.
const controlPrefix = "::wakepoint "

// maxControlLine bounds a control line, in bytes: until its end is seen it is held in memory.
const maxControlLine = 4096

// maxStage bounds a stage, in bytes.
const maxStage = 200

// control is what a control line says; nil for what it does not speak of.
type control struct {
	Progress *int    `json:"progress"`
	Stage    *string `json:"stage"`
}

// parseControl reads a line without its line feed; false when it is no control line.
func parseControl(line string) (control, bool) {
	body, ok := strings.CutPrefix(strings.TrimRight(line, "\r"), controlPrefix)
	if !ok {
		return control{}, false
	}
	body = strings.TrimSpace(body)
	var c control
	if strings.HasPrefix(body, "{") {
		if json.Unmarshal([]byte(body), &c) != nil {
			return control{}, false
		}
	} else if c, ok = parsePairs(body); !ok {
		return control{}, false
	}
	if c.Progress != nil && (*c.Progress < 0 || *c.Progress > 100) {
		return control{}, false
	}
	if c.Stage != nil {
		*c.Stage = cleanStage(*c.Stage)
	}
	return c, true
}

// parsePairs reads key=value pairs; a value in double quotes is a JSON string.
func parsePairs(s string) (control, bool) {
	var c control
	if s == "" {
		return c, false
	}
	for s != "" {
		key, rest, ok := strings.Cut(s, "=")
		if !ok || key == "" || strings.ContainsAny(key, " \t\"") {
			return control{}, false
		}
		value, after, ok := cutValue(rest)
		if !ok {
			return control{}, false
		}
		switch key {
		case "progress":
			n, err := strconv.Atoi(value)
			if err != nil {
				return control{}, false
			}
			c.Progress = &n
		case "stage":
			c.Stage = &value
		}
		s = strings.TrimLeft(after, " \t")
	}
	return c, true
}

// cutValue takes a value off the front, up to white space or the closing quote.
func cutValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, " \t")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], !strings.Contains(s[:end], `"`)
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			err := json.Unmarshal([]byte(s[:i+1]), &value)
			rest = s[i+1:]
			return value, rest, err == nil && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
		}
	}
	return "", "", false
}

// cleanStage makes one short printable line of it.
func cleanStage(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.TrimSpace(s)
	if len(s) > maxStage {
		s = s[:maxStage]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}

// controlFilter passes a stream on without its control lines. Output is passed on as it comes, also
// half a line: only what may still become a control line is held back.
type controlFilter struct {
	// output takes what is output, control what is not.
	output  func([]byte)
	control func(control)

	// inLine: part of the current line has been passed on, so the rest of it is output too.
	inLine bool
	held   []byte
}

func (f *controlFilter) write(p []byte) {
	for len(p) > 0 {
		if f.inLine {
			end := bytes.IndexByte(p, '\n') + 1
			f.inLine = end == 0
			if end == 0 {
				end = len(p)
			}
			f.output(p[:end])
			p = p[end:]
			continue
		}
		p = f.hold(p)
	}
}

// hold takes from p as much as may belong to a control line, and answers with the rest.
func (f *controlFilter) hold(p []byte) []byte {
	end := bytes.IndexByte(p, '\n') + 1
	whole := end > 0
	if !whole {
		end = len(p)
	}
	f.held = append(f.held, p[:end]...)
	n := min(len(f.held), len(controlPrefix))
	mayBe := string(f.held[:n]) == controlPrefix[:n]
	if mayBe && !whole && len(f.held) <= maxControlLine {
		return p[end:]
	}
	f.settle(whole)
	return p[end:]
}

// settle decides about what is held: a whole line, or one that can't become a control line.
func (f *controlFilter) settle(whole bool) {
	held := f.held
	f.held = nil
	if whole && len(held) <= maxControlLine {
		if c, ok := parseControl(strings.TrimSuffix(string(held), "\n")); ok {
			f.control(c)
			return
		}
	}
	f.inLine = !whole
	f.output(held)
}

// end settles a last line without a line feed.
func (f *controlFilter) end() {
	if len(f.held) > 0 {
		f.settle(true)
	}
}
