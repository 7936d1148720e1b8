package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// maxArgument bounds an argument, in bytes. Linux refuses one of 128 KiB or more, with an error
// that does not say which; this bound leaves room and names it.
const maxArgument = 64 << 10

// An argument is a compiled element of argv: literal text and placeholders by turns.
type argument []argumentPart

type argumentPart struct {
	literal string
	// path is the field of the input, nil for literal text.
	path []string
}

// compileArgv reads the placeholders of a command. The rules, also in docs/exec.md:
//
//   - ${input.name} stands for a field of the input, ${input.a.b} for a field of a field; $${ stands
//     for the text "${".
//   - The program itself has no placeholders, nor has an element that an interpreter will read as
//     code: quoting the value right is not something that can be left to luck.
func compileArgv(argv []string) ([]argument, error) {
	compiled := make([]argument, len(argv))
	for i, element := range argv {
		if strings.ContainsRune(element, 0) {
			return nil, fmt.Errorf("argv[%d] must not contain a zero byte", i)
		}
		arg, err := compileArgument(element)
		if err != nil {
			return nil, fmt.Errorf("argv[%d] %q: %w", i, element, err)
		}
		if arg.hasPlaceholder() {
			if i == 0 {
				return nil, fmt.Errorf("argv[0] %q: the program must not have placeholders", element)
			}
			if isCode(argv, i) {
				return nil, fmt.Errorf("argv[%d] %q: a placeholder in what %s runs as code would let the input run code; pass it as an argument of its own", i, element, argv[0])
			}
		}
		compiled[i] = arg
	}
	return compiled, nil
}

func compileArgument(s string) (argument, error) {
	var arg argument
	literal := ""
	for s != "" {
		before, after, found := strings.Cut(s, "${")
		if !found {
			literal += s
			break
		}
		if strings.HasSuffix(before, "$") { // $${ is the text ${
			literal += before + "{"
			s = after
			continue
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed {
			return nil, errors.New("a placeholder is not closed; write $${ for the text ${")
		}
		field, ok := strings.CutPrefix(name, "input.")
		path := strings.Split(field, ".")
		if !ok || slices.Contains(path, "") {
			return nil, fmt.Errorf("${%s} must be ${input.<field>}; write $${ for the text ${", name)
		}
		if literal+before != "" {
			arg = append(arg, argumentPart{literal: literal + before})
		}
		arg = append(arg, argumentPart{path: path})
		literal, s = "", rest
	}
	if literal != "" {
		arg = append(arg, argumentPart{literal: literal})
	}
	return arg, nil
}

func (a argument) hasPlaceholder() bool {
	return slices.ContainsFunc(a, func(p argumentPart) bool { return p.path != nil })
}

// interpreters are programs that run an argument as code, with the options that say so.
var interpreters = map[string][]string{
	"sh": {"-c"}, "bash": {"-c"}, "dash": {"-c"}, "ash": {"-c"}, "zsh": {"-c"}, "ksh": {"-c"}, "fish": {"-c", "--command"},
	"busybox": {"-c"}, "env": {"-c", "-S", "--split-string"}, "python": {"-c"}, "python3": {"-c"}, "perl": {"-e", "-E"}, "ruby": {"-e"},
	"node": {"-e", "--eval", "-p", "--print"}, "php": {"-r"}, "lua": {"-e"}, "deno": {"eval"}, "osascript": {"-e"},
}

// isCode reports whether element i is what the program runs as code: it follows an option that
// says so, alone ("-c"), at the end of a cluster of single letters ("-ec"), or stuck to its value
// ("-c…", "--eval=…").
func isCode(argv []string, i int) bool {
	options, ok := interpreters[filepath.Base(argv[0])]
	if !ok {
		return false
	}
	for _, option := range options {
		letter, short := strings.CutPrefix(option, "-")
		short = short && len(letter) == 1
		if argv[i] != option && strings.HasPrefix(argv[i], option) {
			return true
		}
		before := argv[i-1]
		if before == option {
			return true
		}
		cluster := strings.HasPrefix(before, "-") && !strings.HasPrefix(before, "--") && len(before) <= 8
		if short && cluster && strings.HasSuffix(before, letter) {
			return true
		}
	}
	return false
}

// inputError is what a person who calls the tool can mend.
type inputError struct {
	field, rule string
}

func (e *inputError) Error() string { return "input." + e.field + " " + e.rule }

// renderArgv fills the placeholders in. The error is an [*inputError].
func renderArgv(compiled []argument, input json.RawMessage) ([]string, error) {
	var root any
	if slices.ContainsFunc(compiled, argument.hasPlaceholder) {
		dec := json.NewDecoder(bytes.NewReader(input))
		dec.UseNumber() // a number goes into argv as it was written
		if err := dec.Decode(&root); err != nil {
			return nil, fmt.Errorf("input is no JSON: %w", err)
		}
	}
	argv := make([]string, len(compiled))
	for i, arg := range compiled {
		text, err := arg.render(root)
		if err != nil {
			return nil, err
		}
		argv[i] = text
	}
	return argv, nil
}

func (a argument) render(root any) (string, error) {
	var b strings.Builder
	for i, part := range a {
		if part.path == nil {
			b.WriteString(part.literal)
			continue
		}
		name := strings.Join(part.path, ".")
		value, err := scalar(root, part.path)
		if err != nil {
			return "", err
		}
		switch {
		case strings.ContainsRune(value, 0):
			return "", &inputError{name, "must not contain a zero byte"}
		case b.Len()+len(value) > maxArgument:
			return "", &inputError{name, fmt.Sprintf("makes an argument of more than %d bytes", maxArgument)}
		case i == 0 && strings.HasPrefix(value, "-"):
			// Otherwise a value could name an option of the program.
			return "", &inputError{name, "must not begin with '-'"}
		case i == 0 && value == "" && len(a) > 1:
			// Nothing would then stand before what the next placeholder gives.
			return "", &inputError{name, "must not be empty"}
		}
		b.WriteString(value)
	}
	return b.String(), nil
}

// scalar finds a field and gives its text.
func scalar(v any, path []string) (string, error) {
	name := strings.Join(path, ".")
	for _, field := range path {
		object, ok := v.(map[string]any)
		if !ok {
			return "", &inputError{name, "is not there"}
		}
		if v, ok = object[field]; !ok {
			return "", &inputError{name, "is not there"}
		}
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return fmt.Sprint(v), nil
	}
	return "", &inputError{name, "must be a string, a number or a boolean"}
}
