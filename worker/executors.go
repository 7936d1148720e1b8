package worker

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// executors gives every tool its executor, by the tool's name. The error names
// every tool that is wrong, one a line, at its place in the file.
func (o Options) executors() (map[string]tool.Executor, error) {
	all := make(map[string]tool.Executor, len(o.Config.Tools))
	var wrong config.Errors
	for _, t := range o.Config.Tools {
		if t.Executor == config.ExecutorExternal {
			continue
		}
		ex, err := o.executor(t)
		if err != nil {
			wrong = append(wrong, o.mistake(t, err))
			continue
		}
		all[t.Name] = ex
	}
	if len(wrong) > 0 {
		return all, wrong
	}
	return all, nil
}

func (o Options) executor(t config.Tool) (tool.Executor, error) {
	if t.Exec != nil {
		return o.exec(t)
	}
	ex, ok := o.Executors[t.Executor]
	if !ok || ex == nil {
		return nil, o.Config.Mistake("tools."+t.Name+".executor", "must be external, have a section of its own, or be one that this program registers, not %q", t.Executor)
	}
	return ex, nil
}

// about finds the key that an executor's error begins with.
var about = regexp.MustCompile(`^((?:argv|dir|env|set)(?:\[\d+\])?):? (.*)$`)

// mistake gives an error of an executor its place in the file.
func (o Options) mistake(t config.Tool, err error) *config.Error {
	var placed *config.Error
	if errors.As(err, &placed) {
		return placed
	}
	// What stands around it names the tool, as the key does.
	if inner := errors.Unwrap(err); inner != nil && strings.Contains(err.Error(), strconv.Quote(t.Name)) {
		err = inner
	}
	key, rule := "tools."+t.Name+"."+t.Executor, err.Error()
	if m := about.FindStringSubmatch(rule); m != nil {
		key, rule = key+"."+m[1], m[2]
	}
	return o.Config.Mistake(key, "%s", rule)
}

// Check looks at tools and targets as [New] does, without any connection and
// leaving nothing behind: whether programs are there, whether argv can be filled
// in, whether secrets can be read. Of the options Config, Executors and Getenv
// matter. The error names all that is wrong, one a line.
func Check(ctx context.Context, o Options) error {
	if o.Config == nil {
		return domain.Invalid("config", "must be given")
	}
	dir, err := os.MkdirTemp("", "wakepoint-check-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	blobs, err := store.Open(ctx, "mem://")
	if err != nil {
		return err
	}
	defer func() { _ = blobs.Close() }()
	// Nothing is started, so any program will do as the supervisor.
	o.DataDir, o.Store, o.Host, o.SupervisorArgv = dir, blobs, "check", []string{filepath.Join(dir, "none")}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	_, err = o.executors()
	_, targets := o.targets()
	return allMistakes(err, targets)
}

// allMistakes is one list of the mistakes of several; any other error comes first.
func allMistakes(errs ...error) error {
	var all config.Errors
	var other []error
	for _, err := range errs {
		var some config.Errors
		switch {
		case errors.As(err, &some):
			all = append(all, some...)
		case err != nil:
			other = append(other, err)
		}
	}
	if len(all) > 0 {
		slices.SortStableFunc(all, func(a, b *config.Error) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		other = append(other, all)
	}
	if len(other) == 1 {
		return other[0]
	}
	return errors.Join(other...)
}

func (o Options) exec(t config.Tool) (tool.Executor, error) {
	set := make(map[string]string, len(t.Exec.Set))
	for _, v := range t.Exec.Set {
		set[v.Name] = v.Value
	}
	return exec.New(exec.Config{
		Name: t.Name, Argv: t.Exec.Argv, Dir: t.Exec.Dir, Env: t.Exec.Env, SetEnv: set,
		MaxOutputBytes: t.Exec.MaxOutputBytes, OnOutputLimit: exec.OutputLimit(t.Exec.OnOutputLimit),
		MaxResultBytes: t.Exec.MaxResultBytes, ResultContentType: t.Exec.ResultContentType,
		RetryExitCodes: t.Exec.RetryExitCodes, KillGrace: t.Exec.KillGrace,
		DataDir: filepath.Clean(o.DataDir), Host: o.Host, TaskQueue: protocol.HostTaskQueue(o.TaskQueue, o.Host),
		Store: o.Store, SupervisorArgv: o.SupervisorArgv,
	})
}

func (o Options) targets() (map[string]activities.Target, error) {
	all := make(map[string]activities.Target, len(o.Config.Targets))
	var wrong config.Errors
	for _, t := range o.Config.Targets {
		target := activities.Target{URL: t.URL, AskURL: t.AskURL, Timeout: t.Timeout}
		if !t.Secret.IsZero() {
			text, err := t.Secret.Read(o.Getenv)
			if err == nil {
				target.Secret, err = activities.WebhookSecret(string(text))
			}
			if err != nil {
				wrong = append(wrong, o.Config.Mistake("targets."+t.Name+".secret", "%s", strings.TrimPrefix(err.Error(), config.ErrSecret.Error()+": ")))
				continue
			}
		}
		all[t.Name] = target
	}
	if len(wrong) > 0 {
		return all, wrong
	}
	return all, nil
}
