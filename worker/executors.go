package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// executors gives every tool its executor, by the tool's name. The error names
// every tool that is wrong, one a line.
func (o Options) executors() (map[string]tool.Executor, error) {
	all := make(map[string]tool.Executor, len(o.Config.Tools))
	var wrong []error
	for _, t := range o.Config.Tools {
		switch {
		case t.Exec != nil:
			ex, err := o.exec(t)
			if err != nil {
				wrong = append(wrong, err)
				continue
			}
			all[t.Name] = ex
		case t.Executor == config.ExecutorExternal:
		default:
			ex, ok := o.Executors[t.Executor]
			if !ok || ex == nil {
				wrong = append(wrong, domain.Invalid("tools."+t.Name+".executor", "must be exec, external or one that this program registers, not %q", t.Executor))
				continue
			}
			all[t.Name] = ex
		}
	}
	return all, errors.Join(wrong...)
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
	return errors.Join(err, targets)
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
	for _, t := range o.Config.Targets {
		target := activities.Target{URL: t.URL, AskURL: t.AskURL, Timeout: t.Timeout}
		if !t.Secret.IsZero() {
			text, err := t.Secret.Read(o.Getenv)
			if err != nil {
				return nil, fmt.Errorf("target %s: %w", t.Name, err)
			}
			if target.Secret, err = activities.WebhookSecret(string(text)); err != nil {
				return nil, fmt.Errorf("target %s: %w", t.Name, err)
			}
		}
		all[t.Name] = target
	}
	return all, nil
}
