package outside

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/store"
)

// lookTimeout bounds one call of the server, as the SDK bounds one try of it.
const lookTimeout = 10 * time.Second

// Data is what a handle carries beside the id.
type Data struct {
	SubmissionKey string `json:"submissionKey"`
	Tenant        string `json:"tenant"`
	TaskID        string `json:"taskId"`
	Attempt       int    `json:"attempt"`
	// RunID is the run that was started, the first of its chain.
	RunID string `json:"runId"`
}

// Handle makes the handle of a job.
func Handle(kind string, r Record, runID string) (tool.Handle, error) {
	data, err := json.Marshal(Data{SubmissionKey: r.SubmissionKey, Tenant: r.Tenant, TaskID: r.TaskID, Attempt: r.Attempt, RunID: runID})
	return tool.Handle{Executor: kind, ID: ID(r.SubmissionKey), Data: data}, err
}

// Resolve reads a handle of [Handle].
func Resolve(kind string, h tool.Handle) (Data, error) {
	var d Data
	if h.Executor != kind || json.Unmarshal(h.Data, &d) != nil || d.RunID == "" || h.ID != ID(d.SubmissionKey) {
		return d, fmt.Errorf("%w: executor %q, id %q", tool.ErrUnknownHandle, h.Executor, h.ID)
	}
	return d, nil
}

// BlobKey is where results of the job belong.
func (d Data) BlobKey() store.Key { return store.Key{Tenant: d.Tenant, TaskID: d.TaskID} }

// Look bounds one call of the server: a look that takes longer is repeated by whoever looks.
func Look(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, lookTimeout)
}
