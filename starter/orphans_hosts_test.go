package starter_test

import (
	"testing"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The bug: what a key started on two hosts has one id, and the job of the second host
// was taken for that of the first: nobody was told of it, and nobody stopped it.
func TestOrphansOfOneKeyOnTwoHosts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, h := range []string{"h1", "h2"} {
		j := job("acme/nobody/1", "running", h)
		j.Handle.ID = "hash.1"
		w.engine.SetJobs("vet", protocol.HostTaskQueue("wakepoint", h), []protocol.ListedJob{j})
	}
	out, err := w.Orphans(t.Context(), starter.OrphansRequest{Tool: "vet", Hosts: []string{"h1", "h2"}, Cancel: true})
	if err != nil || len(out.Orphans) != 2 || out.Orphans[0].TaskQueue == out.Orphans[1].TaskQueue {
		t.Errorf("%+v (%v)", out.Orphans, err)
	}
	if stopped := w.engine.Stopped(); len(stopped) != 2 {
		t.Errorf("stopped: %+v", stopped)
	}
}
