package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The names of the tools, as tasks and as arguments of the hidden command.
const (
	ToolVet     = "go-vet"
	ToolTest    = "go-test"
	ToolFormat  = "gofmt"
	ToolCount   = "count"
	ToolHistory = "git-history"
	// ToolReport writes the report about what the others have found.
	ToolReport = "report"
)

// tools are the programs by their names.
func tools() map[string]func(context.Context, *job) (any, error) {
	return map[string]func(context.Context, *job) (any, error){
		ToolVet: vet, ToolTest: test, ToolFormat: format, ToolCount: count, ToolHistory: history,
	}
}

// Input is what a tool is told on standard input.
type Input struct {
	// Dir is the source tree, absolute.
	Dir string `json:"dir"`
	// Exclude are files, absolute, that do not belong to the tree: the report
	// itself, if it lies there.
	Exclude []string `json:"exclude,omitempty"`
}

// envResult names the file for the result.
const envResult = "WAKEPOINT_RESULT"

// RunTool is the main program of a tool: the hidden command internal-tool. It
// gives the exit code.
func RunTool(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	if err := runTool(ctx, args, stdin, stdout, env); err != nil {
		fmt.Fprintf(stderr, "error: %v\n", err)
		return 1
	}
	return 0
}

func runTool(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer, env []string) error {
	if len(args) != 1 {
		return errors.New("name one tool")
	}
	if args[0] == ToolReport {
		return runReport(stdin, stdout, env)
	}
	run, ok := tools()[args[0]]
	if !ok {
		return fmt.Errorf("there is no tool %q", args[0])
	}
	j := &job{out: stdout, env: env}
	if err := json.NewDecoder(stdin).Decode(&j.Input); err != nil {
		return fmt.Errorf("read the input: %w", err)
	}
	if !filepath.IsAbs(j.Dir) {
		return fmt.Errorf("dir must be an absolute path, not %q", j.Dir)
	}
	began := time.Now()
	result, err := run(ctx, j)
	if err != nil {
		return err
	}
	b, err := timed(result, time.Since(began))
	if err != nil {
		return err
	}
	return writeResult(b, stdout, env)
}

// timed is a result as JSON, which is an object, and how long the work took.
func timed(result any, took time.Duration) ([]byte, error) {
	b, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return nil, err
	}
	if members["seconds"], err = json.Marshal(took.Seconds()); err != nil {
		return nil, err
	}
	b, err = json.MarshalIndent(members, "", "  ")
	return append(b, '\n'), err
}

func writeResult(b []byte, stdout io.Writer, env []string) error {
	if path := lookup(env, envResult); path != "" {
		return os.WriteFile(path, b, 0o600)
	}
	_, err := stdout.Write(b)
	return err
}

func lookup(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// job is one run of a tool.
type job struct {
	Input
	out io.Writer
	env []string
}

// report tells the executor how far the work is.
func (j *job) report(done, total int, stage string) {
	percent := 0
	if total > 0 {
		percent = min(100*done/total, 100)
	}
	fmt.Fprintf(j.out, "::wakepoint progress=%d stage=%s\n", percent, strconv.QuoteToASCII(stage))
}

// command makes a command that works in the tree and speaks English.
func (j *job) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = j.Dir
	cmd.Env = append(append([]string{}, j.env...), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat")
	return cmd
}

// output runs a command and gives what it wrote; the error holds its own words.
func (j *job) output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := j.command(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s %s: %w: %s", name, args[0], err, firstLine(stderr.String()))
	}
	return out, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// lines runs a command and gives its output line by line, while it runs. The
// exit status is the error, if it is not 0.
func (j *job) lines(ctx context.Context, each func(line []byte), name string, args ...string) error {
	cmd := j.command(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			each(bytes.TrimRight(line, "\n"))
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args[0], err, firstLine(stderr.String()))
	}
	return nil
}

// tracked are the files of the tree, relative with slashes: those that git
// keeps, so that what was built or written there does not count, else all but
// the hidden ones and those of other people.
func (j *job) tracked(ctx context.Context) ([]string, error) {
	out, err := j.output(ctx, "git", "ls-files", "-z")
	var files []string
	if err == nil {
		files = strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	} else if files, err = j.walk(); err != nil {
		return nil, err
	}
	kept := files[:0]
	for _, f := range files {
		if info, err := os.Lstat(filepath.Join(j.Dir, f)); err == nil && info.Mode().IsRegular() && !j.excluded(f) {
			kept = append(kept, f)
		}
	}
	return kept, nil
}

func (j *job) excluded(file string) bool {
	abs := filepath.Join(j.Dir, file)
	for _, e := range j.Exclude {
		if e == abs {
			return true
		}
	}
	return false
}

// foreign are folders that hold other people's code or what was built.
var foreign = map[string]bool{"vendor": true, "node_modules": true, "bin": true, "dist": true}

func (j *job) walk() ([]string, error) {
	var files []string
	err := filepath.WalkDir(j.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		switch {
		case path == j.Dir:
		case entry.IsDir() && (strings.HasPrefix(name, ".") || foreign[name]):
			return filepath.SkipDir
		case !entry.IsDir() && !strings.HasPrefix(name, "."):
			rel, err := filepath.Rel(j.Dir, path)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	return files, err
}
