package worker

import (
	"path/filepath"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/wakepoint/wakepoint/activities/tool"
	toolactivity "github.com/wakepoint/wakepoint/activities/tool/activity"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
	"github.com/wakepoint/wakepoint/activities/tool/gofunc"
	toolhttp "github.com/wakepoint/wakepoint/activities/tool/http"
	toolworkflow "github.com/wakepoint/wakepoint/activities/tool/workflow"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// How each kind of executor is made of a tool's declaration.

// executor gives the executor of one tool. Those of Temporal ask it nothing yet.
func (o Options) executor(t config.Tool) (tool.Executor, error) {
	switch {
	case t.Exec != nil:
		return o.exec(t)
	case t.HTTP != nil:
		return o.http(t)
	case t.Activity != nil:
		return toolactivity.New(toolactivity.Config{Name: t.Name, Client: o.Temporal, Tool: *t.Activity, Store: o.Store})
	case t.Workflow != nil:
		return toolworkflow.New(toolworkflow.Config{Name: t.Name, Client: o.Temporal, Tool: *t.Workflow, Store: o.Store})
	case t.Go != nil:
		return o.function(t)
	}
	ex, ok := o.Executors[t.Executor]
	if !ok || ex == nil {
		return nil, o.Config.Mistake("tools."+t.Name+".executor", "must be external, have a section of its own, or be one that this program registers, not %q", t.Executor)
	}
	return ex, nil
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

func (o Options) http(t config.Tool) (tool.Executor, error) {
	headers, err := o.headers(t)
	if err != nil {
		return nil, err
	}
	h := t.HTTP
	return toolhttp.New(toolhttp.Config{
		Name: t.Name, URL: h.URL, AllowHTTP: h.AllowHTTP, Headers: headers, KeyHeader: h.KeyHeader, Idempotent: h.Idempotent, Timeout: h.Timeout,
		FindURL: h.FindURL, FindSure: h.FindSure, StatusURL: h.StatusURL, CancelURL: h.CancelURL, CancelMethod: h.CancelMethod, NoCancel: h.NoCancel,
		ListURL: h.ListURL, Callback: h.Callback, Fields: toolhttp.Fields(h.Fields), States: toolhttp.States(h.States),
		MaxResultBytes: h.MaxResultBytes, Store: o.Store,
	})
}

// headers reads the secrets among a tool's headers. No error quotes one.
func (o Options) headers(t config.Tool) ([]toolhttp.Header, error) {
	all := make([]toolhttp.Header, 0, len(t.HTTP.Headers))
	var wrong config.Errors
	for _, h := range t.HTTP.Headers {
		value := h.Value
		if !h.Secret.IsZero() {
			secret, err := h.Secret.Read(o.Getenv)
			if err != nil {
				wrong = append(wrong, o.Config.Mistake("tools."+t.Name+".http.headers."+h.Name, "%s", plain(err)))
				continue
			}
			value = h.Prefix + string(secret)
		}
		all = append(all, toolhttp.Header{Name: h.Name, Value: value})
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return all, nil
}

// plain is an error about a secret without the word before it.
func plain(err error) string {
	return strings.TrimPrefix(err.Error(), config.ErrSecret.Error()+": ")
}

// registered tells of a function that a worker would need and does not have.
func (o Options) registered(t config.Tool) error {
	if t.Go == nil || o.Functions[t.Go.Function] != nil {
		return nil
	}
	return o.Config.Mistake("tools."+t.Name+".go.function", "must be one that this program registers, not %q", t.Go.Function)
}

func (o Options) function(t config.Tool) (tool.Executor, error) {
	return gofunc.New(gofunc.Config{Client: o.Temporal, Name: t.Go.Function, TaskQueue: t.TaskQueue, Heartbeat: t.Go.Heartbeat, Store: o.Store})
}

// registerFunctions registers the functions of the tools whose task queue it is.
func (o Options) registerFunctions(r sdkworker.ActivityRegistry, queue string) {
	var there []string
	for _, t := range o.Config.Tools {
		if t.Go == nil || t.TaskQueue != queue || slices.Contains(there, t.Go.Function) {
			continue
		}
		there = append(there, t.Go.Function)
		kind, run := gofunc.Activity(t.Go.Function, o.Functions[t.Go.Function])
		r.RegisterActivityWithOptions(run, activity.RegisterOptions{Name: kind})
	}
}
