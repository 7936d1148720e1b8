package run_test

import "github.com/wakepoint/wakepoint/domain/run"

// reasonNote says what a reason means and what a sender does about it.
type reasonNote struct {
	reason run.Reason
	means  string
	sender string
}

// What a sender does, for reasons that have it in common.
const (
	itIsDone   = "nothing: it has been done"
	itWasDone  = "nothing: it had been done before"
	giveUp     = "give up: a repeat gets the same answer"
	dropStep   = "drop the step; what it has done is lost"
	askAgain   = "ask again later"
	lookFirst  = "look at the run first"
	notASender = "(no answer to a sender)"
)

var reasonNotes = []reasonNote{
	{run.ReasonClaimed, "The runtime has the step, with a token of its own.", "take the step, and commit it with the token"},
	{run.ReasonNoStep, "No step is due: the run waits, is paused, is on its way to an end, or the wait before the next attempt is not over.", askAgain},
	{run.ReasonStepHeld, "Another runtime has the step, and its lease has not run out.", askAgain},
	{run.ReasonWrongRuntime, "The run belongs to another version of the runtime.", "leave it to a runtime of that version"},
	{run.ReasonRenewed, "The lease of the step begins anew. That is kept, but it is no change.", itIsDone},
	{run.ReasonStaleToken, "Another attempt has the step, or has committed it.", dropStep},
	{run.ReasonCommitted, "The step is committed: its results and inputs are consumed, its calls begin.", itIsDone},
	{run.ReasonFinished, "The step is committed, and was the last. It is an end.", itIsDone},
	{run.ReasonDuplicateCommit, "The step was committed by this very commit. The answer is the one that it had then, as a repeat.", itWasDone},
	{run.ReasonCommitConflict, "The step was committed under this token with another answer. The first one counts.", "mend the runtime: it has done the step twice"},
	{run.ReasonStepAhead, "An earlier step has not been committed.", "commit the step that was asked for"},
	{run.ReasonNothingToWait, "The answer asks for nothing, and nothing is open: the run would be parked for ever.", "commit the step with calls, with `await` or with `final`"},
	{run.ReasonRunClosed, "The run has ended.", giveUp},
	{run.ReasonRunEnding, "The run is on its way to an end, and takes nothing more on.", "give up; a step is dropped, and what it has done is lost"},
	{run.ReasonStepRetry, "This attempt of the step failed. The same step comes again, after a wait.", "nothing: the next attempt has a token of its own"},
	{run.ReasonStepGivenUp, "The step failed for good or for the last time. The run has failed; its checkpoint is kept, its calls go on.", "retry the run when the cause is mended"},
	{run.ReasonStepLost, "The runtime was silent for longer than its lease. The same step comes again.", notASender},
	{run.ReasonLimit, "The commit would pass a limit of the run. Nothing of it is done but that its usage is counted; open calls are given up, and then the run has failed.", "retry the run with a higher limit"},
	{run.ReasonCallStarted, "The call has its task.", notASender},
	{run.ReasonCallEnded, "The call has its result.", notASender},
	{run.ReasonDuplicateResult, "The call had its result before. The first one counts.", notASender},
	{run.ReasonUnknownCall, "The run has no such call, or a step has taken its result.", giveUp},
	{run.ReasonAsksApproval, "A person is asked before the call starts, or because it is a question.", notASender},
	{run.ReasonApproved, "The call starts.", itIsDone},
	{run.ReasonEdited, "The call starts with the arguments as the person changed them.", itIsDone},
	{run.ReasonDenied, "The call is denied.", itIsDone},
	{run.ReasonAnswered, "The question has its answer.", itIsDone},
	{run.ReasonDuplicateAnswer, "It was answered or decided in the same way.", itWasDone},
	{run.ReasonAnswerConflict, "It was answered or decided in another way. The first one counts.", giveUp},
	{run.ReasonNotAsked, "The call does not ask for that, or does no more.", lookFirst},
	{run.ReasonTimedOut, "Nobody decided or answered in time. The call has expired.", notASender},
	{run.ReasonWaitTimeout, "The run waits for the call no longer. Its work goes on, and its late end is an input.", notASender},
	{run.ReasonInput, "It waits for the next step, or wakes the run.", itIsDone},
	{run.ReasonDuplicateInput, "The same was said before under this id.", itWasDone},
	{run.ReasonInputConflict, "Something else was said under this id.", "use another id"},
	{run.ReasonCancelRequested, "The run or the call is given up. Tasks are asked to stop.", "wait for the end"},
	{run.ReasonDuplicateCancel, "A cancel had been asked for, or the call has ended.", "wait for the end"},
	{run.ReasonCancelTimeout, "The grace is over. The run has ended, though some calls have not said that they stopped; it lists them.", notASender},
	{run.ReasonPaused, "Tasks go on, a step that is out may commit, and no other is taken.", itIsDone},
	{run.ReasonUnpaused, "What is due goes on.", itIsDone},
	{run.ReasonUnchanged, "It is so already, or there is nothing to which it applies.", itWasDone},
	{run.ReasonExpired, "The deadline has come. Tasks are asked to stop.", notASender},
	{run.ReasonRetried, "The run goes on: the same step comes again, or it waits for what it waited for.", itIsDone},
	{run.ReasonNotRetriable, "Only a failed or an expired run can be retried. Somebody else may just have done so.", lookFirst},
	{run.ReasonAsksBelow, "The run that does the work of a call asks people something, or has its answer.", notASender},
	{run.ReasonNoted, "Something is kept about a call. It is no change.", notASender},
}

// codeNote says what the code of an error means.
type codeNote struct{ code, means string }

var codeNotes = []codeNote{
	{run.CodeUnknownTool, "The model asked for a tool that is not declared."},
	{run.CodeInvalidInput, "The input does not fit the tool, or refers to a result that is not there."},
	{run.CodeNotStarted, "The task of the call could not be started."},
	{run.CodeWaitTimeout, "The call had not ended when its `waitMs` was over. Its work may go on, and its late end is an input."},
	{run.CodeDependency, "A call that this one depends on did not succeed."},
	{run.CodeDenied, "A person denied the call."},
	{run.CodeApprovalTimeout, "Nobody decided about the call in time."},
	{run.CodeAnswerTimeout, "Nobody answered the question in time."},
	{run.CodeCancelled, "The call or the run was given up on request."},
	{run.CodeTaskTerminated, "The task was terminated in Temporal."},
	{run.CodeTaskGone, "The task is not there any more."},
	{run.CodeResultTooLarge, "The inline result found no room in the run beside what else is open."},
	{run.CodeStepFailed, "A step failed without a reason."},
	{run.CodeStepLost, "The runtime was silent for longer than its lease."},
	{run.CodeInvalidResponse, "The runtime's answer could not be taken."},
	{run.CodePlanFailed, "Not all calls of a plan succeeded."},
	{run.CodeLimitSteps, "The run has taken all its steps, and the last was not final."},
	{run.CodeLimitCalls, "The run has made all its calls."},
	{run.CodeLimitOpenCalls, "Too many calls would be open at once."},
	{run.CodeLimitTokens, "The run has used up its tokens."},
	{run.CodeLimitCost, "The run has used up its money."},
	{run.CodeDeadlineExceeded, "The run did not end before its deadline."},
}
