package stepio

import (
	"strings"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/blobref"
)

// RunKey says that an object is a run's.
func RunKey(tenant, runID string) store.Key { return store.Key{Tenant: tenant, RunID: runID} }

// ofRun tells whether a reference is to an object of a run.
func ofRun(ref, tenant, runID string) bool {
	r, err := blobref.Parse(ref)
	return err == nil && r == blobref.Ref{Tenant: tenant, RunID: runID, Hash: r.Hash}
}

// Own tells whether a reference may be the result of a call of a run: of its task, or,
// without one, of a run that did its work.
func Own(ref, tenant, taskID string) bool { return ofCall(ref, tenant, taskID) }

// ofCall tells whether a reference may be the result of a call: of its task, or of the
// run that did its work. Whoever sends callbacks sends references too, and one that led
// into another's folder would show a model what is not its own.
func ofCall(ref, tenant, taskID string) bool {
	r, err := blobref.Parse(ref)
	if err != nil || r.Tenant != tenant {
		return false
	}
	if taskID != "" {
		return r.TaskID == taskID
	}
	return len(r.RunID) > len(domain.PrefixSubRun) && strings.HasPrefix(r.RunID, domain.PrefixSubRun)
}
