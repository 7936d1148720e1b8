package domain_test

// The lives of the cases below.
const (
	asked   = "effects=unsafe unknown=manual; start at=1; requeue at=3"
	undoing = "effects=unsafe unknown=manual; start at=1; requeue at=3 compensation=undo_1"
	stuck   = undoing + "; compensated at=4 error=stuck"
	shared  = "; start at=1; attach at=2 waiter=b run=run-2"
	left    = shared + "; detach at=3 waiterId=submitter reason=wait-timeout"
)

// peopleCases are the transitions of tasks that several wait for, or that a person
// is asked about; see [ruleCases].
var peopleCases = []ruleCase{
	// Several wait.
	{"one more waits", "; start at=1", "attach at=2 waiter=b run=run-2 call=c", "attached", "running v2 0% 1/2"},
	{"one more waits for what is queued", "", "attach at=2 waiter=b", "attached", "queued v1 0% 0/2"},
	{"it waits already", shared, "attach at=3 waiter=b", "duplicate-waiter", "running v2 0% 1/2"},
	{"the submitter waits from the beginning", "", "attach at=2 waiter=submitter", "duplicate-waiter", "queued v0 0% 0/2"},
	{"one that left waits again", left, "attach at=4 waiter=submitter", "attached", "running v4 0% 1/2"},
	{"nobody", "; start at=1", "attach at=2", "", ""},
	{"one without an id", "; start at=1", "attach at=2 run=run-2", "", ""},
	{"one whose id is none", "; start at=1", `attach at=2 waiter="a b"`, "", ""},
	{"one whose run is none", "; start at=1", "attach at=2 waiter=b run=a/b", "", ""},
	{"one for a task that has ended", "; start at=1; fail at=2", "attach at=3 waiter=b", "terminal-conflict", "failed v2 0% 1/2"},
	{"one waits no longer", shared, "detach at=3 waiterId=b", "detached", "running v3 0% 1/2"},
	{"the last waits no longer, and the work goes on", "; start at=1", "detach at=3 waiterId=submitter reason=wait-timeout", "detached", "running v2 0% 1/2"},
	{"it has left", left, "detach at=4 waiterId=submitter", "duplicate-detach", "running v3 0% 1/2"},
	{"a stranger leaves", shared, "detach at=3 waiterId=c", "unknown-waiter", "running v2 0% 1/2"},
	{"somebody leaves", shared, "detach at=3", "", ""},
	{"one of two cancels", shared, "cancel-requested at=3 waiterId=b", "detached", "running v3 0% 1/2"},
	{"one of two cancels what is queued", "; attach at=1 waiter=b", "cancel-requested at=3 waiterId=submitter", "detached", "queued v2 0% 0/2"},
	{"the other one cancels too", shared + "; cancel-requested at=3 waiterId=b", "cancel-requested at=4 waiterId=submitter", "cancel-requested", "running v4 0% 1/2"},
	{"the other one cancels too, and it is queued", "; attach at=1 waiter=b; cancel-requested at=3 waiterId=b", "cancel-requested at=4 waiterId=submitter", "cancelled", "cancelled v3 0% 0/2"},
	{"one cancels twice", shared + "; cancel-requested at=3 waiterId=b", "cancel-requested at=4 waiterId=b", "duplicate-detach", "running v3 0% 1/2"},
	{"the only one cancels", "; start at=1", "cancel-requested at=3 waiterId=submitter", "cancel-requested", "running v2 0% 1/2"},
	{"a stranger cancels", shared, "cancel-requested at=3 waiterId=c", "unknown-waiter", "running v2 0% 1/2"},
	{"the operator cancels for all", shared, "cancel-requested at=3 by=ann", "cancel-requested", "running v3 0% 1/2"},
	{"one cancels after the operator", shared + "; cancel-requested at=3 by=ann", "cancel-requested at=4 waiterId=b", "detached", "running v4 0% 1/2"},
	{"one cancels while another lost patience only", left, "cancel-requested at=4 waiterId=b", "detached", "running v4 0% 1/2"},
	{"one who lost patience cancels", left, "cancel-requested at=4 waiterId=submitter", "detached", "running v4 0% 1/2"},
	{"one who lost patience cancels, and is the last", "; start at=1; detach at=3 waiterId=submitter reason=wait-timeout", "cancel-requested at=4 waiterId=submitter", "cancel-requested", "running v3 0% 1/2"},
	// A person is asked.
	{"unsafe work is lost", "effects=unsafe unknown=manual; start at=1", "requeue at=3", "manual", "running v2 0% 1/2"},
	{"unsafe work is lost in its last attempt", "effects=unsafe unknown=manual max=1; start at=1", "requeue at=3 stopped", "manual", "running v2 0% 1/1"},
	{"safe work is lost", "unknown=manual; start at=1", "requeue at=3", "requeued", "queued v2 0% 1/2"},
	{"unsafe work is lost, and to be cancelled", "effects=unsafe unknown=manual; start at=1; cancel-requested at=2", "requeue at=3", "cancelled", "cancelled v3 0% 1/2"},
	{"it is lost again", asked, "requeue at=4", "already-manual", "running v2 0% 1/2"},
	{"it is silent", asked, "suspect at=4", "already-manual", "running v2 0% 1/2"},
	{"its worker is heard of", asked, "heartbeat at=4", "lease-renewed", "running v3 0% 1/2"},
	{"its worker enters a stage", asked, "heartbeat at=4 stage=link", "stage", "running v3 0% 1/2"},
	{"its worker gets on", asked, "progress at=4 progress=5", "progress", "running v3 5% 1/2"},
	{"its worker is done", asked, "succeed at=4 ref=r hash=h", "succeeded", "succeeded v3 100% 1/2"},
	{"its worker failed, which may be tried again", asked, "fail at=4 retryable", "requeued", "queued v3 0% 1/2"},
	{"the outside knows it after all", asked, "lease-renewed at=4", "lease-renewed", "running v3 0% 1/2"},
	{"it is cancelled", asked, "cancel-requested at=4", "cancel-requested", "running v3 0% 1/2"},
	{"it is cancelled, and gone", asked + "; cancel-requested at=4", "requeue at=5 stopped", "cancelled", "cancelled v4 0% 1/2"},
	{"it is cancelled, and nobody confirms", asked + "; cancel-requested at=4", "cancel-timeout at=5", "cancel-unconfirmed", "cancelled v4 0% 1/2"},
	{"the deadline comes", asked, "expire at=1000", "expired", "expired v3 0% 1/2"},
	{"a person found it done", asked, "resolve at=4 action=succeeded ref=r hash=h by=ann", "resolved", "succeeded v3 100% 1/2"},
	{"a person found it done, and has no result", asked, "resolve at=4 action=succeeded hash=h", "", ""},
	{"a person found it done, and has no hash", asked, "resolve at=4 action=succeeded ref=r", "", ""},
	{"a person found it not done", asked, "resolve at=4 action=failed", "resolved", "failed v3 0% 1/2"},
	{"a person wants it again", asked, "resolve at=4 action=repeat", "resolved", "queued v3 0% 1/2"},
	{"a person wants it again after the last attempt", "effects=unsafe unknown=manual max=1; start at=1; requeue at=3", "resolve at=4 action=repeat", "resolved", "queued v3 0% 1/2"},
	{"a person wants it again, and another wants it cancelled", asked + "; cancel-requested at=4", "resolve at=5 action=repeat", "resolved", "cancelled v4 0% 1/2"},
	{"a person found it done, and another wants it cancelled", asked + "; cancel-requested at=4", "resolve at=5 action=succeeded ref=r hash=h", "resolved", "succeeded v4 100% 1/2"},
	{"a person has a guess", asked, "resolve at=4 action=guess", "", ""},
	{"nobody was asked", "; start at=1", "resolve at=4 action=failed", "not-manual", "running v1 0% 1/2"},
	{"nobody was asked about what is queued", "", "resolve at=4 action=repeat", "not-manual", "queued v0 0% 0/2"},
	{"two persons at once", asked + "; resolve at=4 action=repeat", "resolve at=4 action=failed", "not-manual", "queued v3 0% 1/2"},
	{"a person about another attempt", asked, "resolve at=4 action=failed attempt=2", "stale-attempt", "running v2 0% 1/2"},
	// What may have been done is undone.
	{"it was undone", undoing, "compensated at=5 compensation=undo_1", "compensated", "queued v3 0% 1/2"},
	{"it was undone in its last attempt", "max=1 effects=unsafe unknown=manual; start at=1; requeue at=3 compensation=undo_1", "compensated at=5", "compensated", "failed v3 0% 1/1"},
	{"it was undone, and is to be cancelled", undoing + "; cancel-requested at=4", "compensated at=5", "compensated", "cancelled v4 0% 1/2"},
	{"it could not be undone", undoing, "compensated at=5 error=stuck", "not-compensated", "running v3 0% 1/2"},
	{"it could not be undone, and is to be cancelled", undoing + "; cancel-requested at=4", "compensated at=5 error=stuck", "not-compensated", "running v4 0% 1/2"},
	{"something else was undone", undoing, "compensated at=5 compensation=undo_2", "not-manual", "running v2 0% 1/2"},
	{"it was undone after all", stuck, "compensated at=5 compensation=undo_1", "not-manual", "running v3 0% 1/2"},
	{"nothing was to be undone", asked, "compensated at=5", "not-manual", "running v2 0% 1/2"},
	{"nothing was to be undone of what is queued", "", "compensated at=5", "not-manual", "queued v0 0% 0/2"},
	{"another attempt was undone", undoing, "compensated at=5 attempt=2", "stale-attempt", "running v2 0% 1/2"},
	{"its worker is done while it is undone", undoing, "succeed at=5 ref=r hash=h", "being-undone", "running v2 0% 1/2"},
	{"its worker failed while it is undone", undoing, "fail at=5 retryable", "being-undone", "running v2 0% 1/2"},
	{"its worker stopped while it is undone", undoing, "cancelled at=5", "being-undone", "running v2 0% 1/2"},
	{"its worker is heard of while it is undone", undoing, "heartbeat at=5", "heartbeat", "running v2 0% 1/2"},
	{"the outside knows it while it is undone", undoing, "lease-renewed at=5", "not-suspected", "running v2 0% 1/2"},
	{"it is lost again while it is undone", undoing + "; cancel-requested at=4", "requeue at=5", "already-manual", "running v3 0% 1/2"},
	{"nobody confirms a cancel while it is undone", undoing + "; cancel-requested at=4", "cancel-timeout at=5", "being-undone", "running v3 0% 1/2"},
	{"a person knows better while it is undone", undoing, "resolve at=5 action=failed", "resolved", "failed v3 0% 1/2"},
	{"its worker is done after it could not be undone", stuck, "succeed at=5 ref=r hash=h", "succeeded", "succeeded v4 100% 1/2"},
	{"a person wants it again after it could not be undone", stuck, "resolve at=5 action=repeat", "resolved", "queued v4 0% 1/2"},
}
