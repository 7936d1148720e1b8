package stepio

import (
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/blobref"
)

// ownerPrefix makes an owner of a run.
const ownerPrefix = "run."

// runKey says that an object is a run's.
func runKey(tenant, runID string) store.Key {
	return store.Key{Tenant: tenant, TaskID: ownerPrefix + runID}
}

// ofRun tells whether a reference is to an object of a run.
func ofRun(ref, tenant, runID string) bool {
	r, err := blobref.Parse(ref)
	return err == nil && r.Tenant == tenant && r.TaskID == ownerPrefix+runID
}

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
	return len(r.TaskID) > len(ownerPrefix+domain.PrefixSubRun) && r.TaskID[:len(ownerPrefix+domain.PrefixSubRun)] == ownerPrefix+domain.PrefixSubRun
}
