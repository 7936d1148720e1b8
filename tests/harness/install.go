package harness

import (
	"log/slog"
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/worker"
)

// Installation is one tenant's configuration with its client, its store and a
// worker that can be stopped and started.
type Installation struct {
	T        testing.TB
	Engine   *Engine
	Temporal client.Client
	Config   *config.Config
	Store    *store.Store
	Client   *starter.Client
	Options  worker.Options
	worker   *worker.Worker
}

// Install makes an installation on an engine: its own tenant and task queue, so
// that tests can share the engine. The YAML declares tools and targets. The
// worker is not started.
func Install(t testing.TB, e *Engine, tenant, yaml string, executors map[string]tool.Executor) *Installation {
	t.Helper()
	dir := t.TempDir()
	cfg, err := config.Parse(filepath.Join(dir, "wakepoint.yaml"), []byte("tenant: "+tenant+"\ntaskQueue: q-"+tenant+"\n"+yaml))
	must(t, err)
	c, err := e.Client("default")
	must(t, err)
	t.Cleanup(c.Close)
	url, err := store.FileURL(filepath.Join(dir, "blobs"))
	must(t, err)
	st, err := store.Open(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	in := &Installation{T: t, Engine: e, Temporal: c, Config: cfg, Store: st}
	in.Client, err = starter.New(starter.Options{
		Temporal: c, Tenant: tenant, TaskQueue: cfg.TaskQueue, Config: cfg, Store: st, Secret: []byte("a secret of the tests, for ids"),
	})
	must(t, err)
	in.Options = worker.Options{
		Temporal: c, Config: cfg, Store: st, DataDir: filepath.Join(dir, "data"), Host: "h-" + tenant, Executors: executors,
		Logger: slog.New(slog.DiscardHandler), Calls: in.Client.Calls(),
	}
	t.Cleanup(in.StopWorker)
	return in
}

// StartWorker starts the worker, a new one after StopWorker.
func (in *Installation) StartWorker() *Installation {
	in.T.Helper()
	w, err := worker.New(in.Options)
	must(in.T, err)
	must(in.T, w.Start())
	in.worker = w
	return in
}

// StopWorker stops the worker, if it runs.
func (in *Installation) StopWorker() {
	if in.worker != nil {
		in.worker.Stop()
		in.worker = nil
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
