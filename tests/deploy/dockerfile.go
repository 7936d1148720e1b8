package deploy

import (
	"fmt"
	"slices"
	"strings"
)

// instruction is one instruction of a Dockerfile, its continued lines joined.
type instruction struct{ name, args string }

// Dockerfile says what is wrong with the image that a Dockerfile makes: it must be made from pinned images, hold the
// given programs, end as a user that is not root, start the first program and say how it is.
func Dockerfile(src []byte, programs []string) []string {
	var breaches []string
	args := map[string]string{}
	stages := map[string]bool{}
	var final []instruction
	for _, in := range instructions(string(src)) {
		switch in.name {
		case "ARG":
			name, value, _ := strings.Cut(in.args, "=")
			args[name] = value
		case "FROM":
			final = nil
			fields := strings.Fields(in.args)
			ref := fields[0]
			if name, ok := strings.CutPrefix(ref, "${"); ok {
				ref = args[strings.TrimSuffix(name, "}")]
			}
			if why := Pinned(ref); why != "" && !stages[ref] {
				breaches = append(breaches, why)
			}
			if len(fields) == 3 {
				stages[fields[2]] = true
			}
		default:
			final = append(final, in)
		}
	}
	for _, program := range programs {
		if !slices.ContainsFunc(final, func(in instruction) bool {
			return in.name == "COPY" && strings.Contains(in.args, "/"+program+" ")
		}) {
			breaches = append(breaches, "the image does not hold "+program)
		}
	}
	if user := last(final, "USER"); user == "" || strings.HasPrefix(user, "root") || strings.HasPrefix(user, "0") {
		breaches = append(breaches, fmt.Sprintf("the image runs as user %q", user))
	}
	if entry := last(final, "ENTRYPOINT"); !strings.HasPrefix(entry, "[") || !strings.Contains(entry, "/"+programs[0]+`"`) {
		breaches = append(breaches, fmt.Sprintf("the image starts %s, want %s without a shell", entry, programs[0]))
	}
	if check := last(final, "HEALTHCHECK"); check == "" || check == "NONE" {
		breaches = append(breaches, "the image has no health check")
	}
	return breaches
}

// last gives the arguments of the last instruction of a name: the one that counts.
func last(all []instruction, name string) string {
	for _, in := range slices.Backward(all) {
		if in.name == name {
			return in.args
		}
	}
	return ""
}

// instructions splits a Dockerfile. Comments go, a line that ends in a backslash goes on in the next.
func instructions(src string) []instruction {
	var all []instruction
	joined := ""
	for line := range strings.Lines(src) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		joined += line
		if rest, ok := strings.CutSuffix(joined, `\`); ok {
			joined = rest
			continue
		}
		name, args, _ := strings.Cut(joined, " ")
		all = append(all, instruction{strings.ToUpper(name), strings.TrimSpace(args)})
		joined = ""
	}
	return all
}
