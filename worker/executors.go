package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/wakepoint/wakepoint/activities"
	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
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
		if err == nil {
			err = o.registered(t)
		}
		if err != nil {
			wrong = append(wrong, o.mistakes(t, err)...)
			continue
		}
		all[t.Name] = ex
	}
	if len(wrong) > 0 {
		return all, wrong
	}
	return all, nil
}

// about finds the key that an executor's error begins with.
var about = regexp.MustCompile(`^((?:argv|dir|env|set)(?:\[\d+\])?):? (.*)$`)

// mistakes gives an error of an executor its place in the file.
func (o Options) mistakes(t config.Tool, err error) config.Errors {
	var several config.Errors
	var placed *config.Error
	switch {
	case errors.As(err, &several):
		return several
	case errors.As(err, &placed):
		return config.Errors{placed}
	}
	// What stands around it names the tool, as the key does.
	if inner := errors.Unwrap(err); inner != nil && strings.Contains(err.Error(), strconv.Quote(t.Name)) {
		err = inner
	}
	key, rule := "tools."+t.Name+"."+t.Executor, err.Error()
	if m := about.FindStringSubmatch(rule); m != nil {
		key, rule = key+"."+m[1], m[2]
	}
	return config.Errors{o.Config.Mistake(key, "%s", rule)}
}

// Check looks at tools and targets as [New] does, without any connection and
// leaving nothing behind: whether programs are there, whether argv can be filled
// in, whether secrets can be read. Of the options Config, Executors, Functions and
// Getenv matter. The error names all that is wrong, one a line.
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
	// It connects when it is first used, which it never is.
	if o.Temporal, err = client.NewLazyClient(client.Options{Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))}); err != nil {
		return err
	}
	defer o.Temporal.Close()
	if o.TaskQueue == "" {
		o.TaskQueue = o.Config.TaskQueue
	}
	// Nothing is started, so any program will do as the supervisor.
	o.DataDir, o.Store, o.Host, o.SupervisorArgv = dir, blobs, "check", []string{filepath.Join(dir, "none")}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	_, err = o.executors()
	_, queues := o.queues()
	_, targets := o.targets()
	_, runtimes := o.runtimes()
	return allMistakes(err, targets, runtimes, queues)
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

func (o Options) targets() (map[string]activities.Target, error) {
	all := make(map[string]activities.Target, len(o.Config.Targets))
	var wrong config.Errors
	for _, t := range o.Config.Targets {
		target := activities.Target{URL: t.URL, AskURL: t.AskURL, Timeout: t.Timeout}
		if !t.Secret.IsZero() {
			secret, err := o.signingSecret(t.Secret)
			if err != nil {
				wrong = append(wrong, o.Config.Mistake("targets."+t.Name+".secret", "%s", plain(err)))
				continue
			}
			target.Secret = secret
		}
		all[t.Name] = target
	}
	if len(wrong) > 0 {
		return all, wrong
	}
	return all, nil
}

// runtimes are where the steps of runtimes of mode push go.
func (o Options) runtimes() (map[string]activities.Runtime, error) {
	all := make(map[string]activities.Runtime, len(o.Config.Runtimes))
	var wrong config.Errors
	for _, r := range o.Config.Runtimes {
		if r.Push == nil {
			continue
		}
		rt := activities.Runtime{URL: r.Push.URL, Timeout: r.Push.Timeout}
		if !r.Push.Secret.IsZero() {
			secret, err := o.signingSecret(r.Push.Secret)
			if err != nil {
				wrong = append(wrong, o.Config.Mistake("runtimes."+r.Name+".push.secret", "%s", plain(err)))
				continue
			}
			rt.Secret = secret
		}
		all[r.Name] = rt
	}
	if len(wrong) > 0 {
		return all, wrong
	}
	return all, nil
}

// signingSecret reads a secret of Standard Webhooks.
func (o Options) signingSecret(ref config.SecretRef) ([]byte, error) {
	text, err := ref.Read(o.Getenv)
	if err != nil {
		return nil, err
	}
	return activities.WebhookSecret(string(text))
}
