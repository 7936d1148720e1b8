// Package temporaltools shows the executors activity, workflow and go on the real engine.
package temporaltools

import (
	"os"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// engine is the engine of all tests here.
var engine *harness.Engine

func TestMain(m *testing.M) { os.Exit(harness.Main(m, &engine)) }

func dial(t testing.TB) client.Client {
	t.Helper()
	c, err := engine.Client("default")
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func blobs(t testing.TB) *store.Store {
	t.Helper()
	url, err := store.FileURL(t.TempDir())
	must(t, err)
	st, err := store.Open(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
