package replay

import (
	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/tests/harness"
)

// liveSweep is a task whose results and jobs are swept while it lives, which takes
// nothing from it.
func liveSweep(b harness.Bed, _ *harness.Script, id string) {
	b.Park("review", id)
	sweeps(b, id)
	b.Callback(id, "end", harness.Succeed("h"))
}

// sweeps sweeps once more and gives the workflows.
func sweeps(b harness.Bed, _ string) []string {
	all, err := b.Client.Sweep(b.Ctx, starter.SweepRequest{Hosts: []string{b.Options.Host}})
	require.NoError(b.T, err)
	var ids []string
	for _, s := range all {
		require.Nil(b.T, s.Error)
		ids = append(ids, s.WorkflowID)
	}
	return ids
}
