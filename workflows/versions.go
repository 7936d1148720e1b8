package workflows

// The ids of workflow.GetVersion live here, each with its date, its reason and
// when it may go. There is none yet: no history was recorded by a release.
