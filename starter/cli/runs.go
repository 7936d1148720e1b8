package cli

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Runs is what the commands need of the Go client for runs: [starter.Client] has it all.
type Runs interface {
	StartRun(ctx context.Context, s starter.RunStart) (starter.RunStarted, error)
	DescribeRun(ctx context.Context, runID string) (starter.RunDescription, error)
	WatchRun(ctx context.Context, runID string, cursor int64) iter.Seq2[starter.RunChange, error]
	RunResult(ctx context.Context, runID string) (starter.RunAnswer, error)
	ListRuns(ctx context.Context, r starter.ListRunsRequest) (starter.RunListing, error)
	Next(ctx context.Context, runID string, o starter.NextOptions) (run.StepRequest, error)
	Commit(ctx context.Context, runID string, step int, token string, resp run.StepResponse) (run.Outcome, error)
	StepHeartbeat(ctx context.Context, runID, token string, delta json.RawMessage) (run.Outcome, error)
	Say(ctx context.Context, runID string, said protocol.RunSaid) (run.Outcome, error)
	AnswerRun(ctx context.Context, runID string, a protocol.AnswerCall) (run.Outcome, error)
	Approve(ctx context.Context, runID string, a protocol.Approve) (run.Outcome, error)
	CancelRun(ctx context.Context, runID string, c protocol.Cancel) (run.Outcome, error)
	CancelCall(ctx context.Context, runID string, m protocol.CancelOneCall) (run.Outcome, error)
	Pause(ctx context.Context, runID string, p protocol.Pause) (run.Outcome, error)
	Unpause(ctx context.Context, runID string, p protocol.Pause) (run.Outcome, error)
	RecoverRun(ctx context.Context, runID string, r protocol.Recover) (protocol.Recovered, error)
	RecoverAll(ctx context.Context, r protocol.Recover, tell func(runID string, out protocol.Recovered, err error)) error
	RetryRun(ctx context.Context, runID string, r starter.RunRetry) (starter.RunRetried, error)
}

func (a *app) runCommand() *cobra.Command {
	cmd := group("run", "start, follow and steer runs of agents", "",
		a.runStartCommand(), a.runListCommand(), a.runShowCommand(), a.runWatchCommand(), a.runResultCommand(),
		a.runInputCommand(), a.runAnswerCommand(), a.runApproveCommand(), a.runCancelCommand(), a.runPauseCommand(), a.runRecoverCommand(), a.runRetryCommand(),
		a.runNextCommand(), a.runCommitCommand(), a.runHeartbeatCommand())
	a.engineFlags(cmd.PersistentFlags())
	return cmd
}

// limitFlags are the limits that a command may give a run.
type limitFlags struct{ run.Limits }

func (l *limitFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&l.MaxSteps, "max-steps", 0, "how many steps it may take")
	f.IntVar(&l.MaxCalls, "max-calls", 0, "how many calls it may make")
	f.IntVar(&l.MaxOpenCalls, "max-open-calls", 0, "how many of them may be open at a time")
	f.Int64Var(&l.MaxTokens, "max-tokens", 0, "how many tokens it may use, as its runtime says")
	f.Float64Var(&l.MaxCostUSD, "max-cost-usd", 0, "what it may cost, as its runtime says")
}

// limitNames are the names of those flags.
func limitNames(more ...string) []string {
	return append([]string{"max-steps", "max-calls", "max-open-calls", "max-tokens", "max-cost-usd"}, more...)
}

// given are the limits, nil if there are none.
func (l *limitFlags) given() *run.Limits {
	if l.Limits == (run.Limits{}) {
		return nil
	}
	return &l.Limits
}

// runLink is the page of a run in the Temporal UI.
func (s *session) runLink(tenant, runID string) string {
	return s.link(protocol.RunWorkflowID(tenant, runID), "")
}

// taskLink is the page of a task in the Temporal UI.
func (s *session) taskLink(tenant, taskID string) string {
	return s.link(protocol.TaskWorkflowID(tenant, taskID), "")
}
