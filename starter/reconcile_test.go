package starter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/serviceerror"
	workerpb "go.temporal.io/api/worker/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/startertest"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

func TestReconcileTakesWhatTheOutsideSays(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.submit(t, starter.Submission{TaskID: "a"}).TaskID
	w.call(t, id, "1", start())
	before := protocol.Standing{State: domain.StateRunning, Phase: domain.PhaseWaitingExternal, Version: 1, Attempt: 1}
	w.engine.SetOutside(w.workflowID(id), startertest.Outside{Says: protocol.OutsideRunning, Note: "40 %"})
	for range 2 {
		got, err := w.Reconcile(t.Context(), id, protocol.Reconcile{By: "ann"})
		if want := (protocol.Reconciled{Before: before, After: before, Outside: protocol.OutsideRunning, Note: "40 %"}); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%+v (%v)", got, err)
		}
	}
	w.engine.SetOutside(w.workflowID(id), startertest.Outside{Says: protocol.OutsideEnded, Event: &domain.Event{
		Type: domain.EventSucceed, ResultRef: "r", ResultHash: "h",
	}})
	ended := protocol.Standing{State: domain.StateSucceeded, Phase: domain.PhaseSucceeded, Version: 2, Attempt: 1}
	got, err := w.Reconcile(t.Context(), id, protocol.Reconcile{})
	if want := (protocol.Reconciled{Before: before, After: ended, Outside: protocol.OutsideEnded, Did: domain.ReasonSucceeded}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v (%v)", got, err)
	}
	got, err = w.Reconcile(t.Context(), id, protocol.Reconcile{})
	if want := (protocol.Reconciled{Before: ended, After: ended, Outside: protocol.OutsideNotAsked, Note: "the task has succeeded"}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("after the end: %+v (%v)", got, err)
	}
}

func TestReconcileAll(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		for i := range 20 {
			w.submit(t, starter.Submission{TaskID: fmt.Sprintf("t%02d", i), RunID: fmt.Sprint("r", i%2)})
		}
		w.submit(t, starter.Submission{TaskID: "x", Tool: "approve"})
		w.call(t, "t03", "1", succeed())
		w.call(t, "t04", "1", start())
		w.engine.SetOutside(w.workflowID("t04"), startertest.Outside{Says: protocol.OutsideNoAnswer})
		ids := func(r starter.ReconcileRequest) (n int, unsettled string) {
			t.Helper()
			all, err := w.ReconcileAll(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range all {
				if !x.Settled() {
					unsettled += x.TaskID + " "
				}
			}
			return len(all), unsettled
		}
		for _, c := range []struct {
			r    starter.ReconcileRequest
			n    int
			want string
		}{
			{starter.ReconcileRequest{}, 20, "t04 "},
			{starter.ReconcileRequest{Tool: "approve"}, 1, ""},
			{starter.ReconcileRequest{Run: "r1"}, 9, ""},
			{starter.ReconcileRequest{Tasks: []string{"t04", "t03", "gone"}}, 3, "t04 gone "},
		} {
			for range 2 {
				if n, unsettled := ids(c.r); n != c.n || unsettled != c.want {
					t.Errorf("%+v: %d tasks, unsettled %q", c.r, n, unsettled)
				}
			}
		}
		w.engine.Terminate(w.workflowID("t05"))
		w.engine.Workers(false)
		began := time.Now()
		all, err := w.ReconcileAll(t.Context(), starter.ReconcileRequest{Tasks: []string{"t05", "t06"}})
		if err != nil || len(all) != 2 || all[0].Error.Code != starter.CodeTerminated || all[1].Error.Code != starter.CodeNoWorker || time.Since(began) > 2*time.Minute {
			t.Errorf("%+v (%v) after %s", all, err, time.Since(began))
		}
	})
}

func TestReconcileRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for field, r := range map[string]starter.ReconcileRequest{"taskId": {Tasks: []string{"a/b"}}, "tool": {Tool: "/"}, "runId": {Run: "/"}} {
		_, err := w.ReconcileAll(t.Context(), r)
		if e := as(t, err, starter.ErrInvalid); e.Field != field {
			t.Errorf("%v", err)
		}
	}
	_, err := w.Reconcile(t.Context(), "a", protocol.Reconcile{By: "\xff"})
	if e := as(t, err, starter.ErrInvalid); e.Field != "by" {
		t.Errorf("%v", err)
	}
	_, err = w.ReconcileAll(t.Context(), starter.ReconcileRequest{By: "\xff"})
	if e := as(t, err, starter.ErrInvalid); e.Field != "by" {
		t.Errorf("%v", err)
	}
	// A slip of the pen is no all-clear.
	_, err = w.ReconcileAll(t.Context(), starter.ReconcileRequest{Tool: "nosuch"})
	is(t, err, starter.ErrUnknownTool)
	_, err = w.Manual(t.Context(), starter.ManualRequest{Tool: "nosuch"})
	is(t, err, starter.ErrUnknownTool)
	w.submit(t, starter.Submission{TaskID: "a"})
	if twice, err := w.ReconcileAll(t.Context(), starter.ReconcileRequest{Tasks: []string{"a", "a"}}); err != nil || len(twice) != 1 {
		t.Errorf("one task named twice: %+v, %v", twice, err)
	}
	w.engine.Down(true)
	_, err = w.ReconcileAll(t.Context(), starter.ReconcileRequest{})
	is(t, err, starter.ErrUnavailable)
}

// job is an outside job of a task as an executor lists it.
func job(key, state, host string) protocol.ListedJob {
	h := protocol.Handle{Executor: "exec", ID: "job of " + key}
	if host != "" {
		h.TaskQueue = protocol.HostTaskQueue("wakepoint", host)
	}
	return protocol.ListedJob{Handle: h, SubmissionKey: key, State: state, StartedAtMs: epoch}
}

func TestOrphans(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"running", "moved", "ended", "terminated"} {
		w.submit(t, starter.Submission{TaskID: id, Tool: "vet", Input: []byte(`{}`)})
		w.call(t, id, "1", start())
	}
	yes := true
	w.call(t, "moved", "2", domain.Event{Type: domain.EventFail, Retryable: &yes})
	w.call(t, "ended", "2", succeed())
	w.engine.Terminate(w.workflowID("terminated"))
	w.engine.SetHandle(w.workflowID("running"), &protocol.Handle{Executor: "exec", ID: "x", TaskQueue: protocol.HostTaskQueue("wakepoint", "h1")})
	w.engine.SetJobs("vet", protocol.HostTaskQueue("wakepoint", "h1"), []protocol.ListedJob{
		job("acme/running/1", "running", "h1"), job("acme/moved/1", "running", "h1"), job("acme/ended/1", "unknown", "h1"),
		job("acme/terminated/1", "running", "h1"), job("acme/nobody/1", "running", "h1"), job("acme/nobody/2", "succeeded", "h1"),
		job("umbrella/running/7", "running", "h1"), job("no key of ours", "running", "h1"),
	})
	w.engine.SetJobs("vet", protocol.HostTaskQueue("wakepoint", "h2"), []protocol.ListedJob{})
	out, err := w.Orphans(t.Context(), starter.OrphansRequest{Hosts: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, o := range out.Orphans {
		why[o.SubmissionKey] = o.Why
		if o.Cancelled || o.TaskQueue != "wakepoint-host-h1" || o.Tool != "vet" {
			t.Errorf("%+v", o)
		}
	}
	want := map[string]string{
		"acme/moved/1": starter.OrphanMovedOn, "acme/ended/1": starter.OrphanEnded, "acme/terminated/1": starter.OrphanTerminated, "acme/nobody/1": starter.OrphanUnknown,
	}
	if diff := cmp.Diff(want, why); diff != "" || out.Looked != 5 || len(out.Unlisted) != 0 || len(out.CannotList) != 0 {
		t.Errorf("%s\n%+v", diff, out)
	}
	if stopped := w.engine.Stopped(); len(stopped) != 0 {
		t.Errorf("stopped without being told to: %+v", stopped)
	}
	out, err = w.Orphans(t.Context(), starter.OrphansRequest{Cancel: true, Tool: "vet"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range out.Orphans {
		if !o.Cancelled || o.Error != nil {
			t.Errorf("%+v", o)
		}
	}
	stopped := map[string]string{}
	for _, j := range w.engine.Stopped() {
		stopped[j.SubmissionKey] = j.Handle.ID
	}
	if len(stopped) != 4 || stopped["acme/running/1"] != "" || stopped["acme/ended/1"] != "job of acme/ended/1" {
		t.Errorf("stopped %+v", stopped)
	}
}

// polled is an engine that knows which queues workers poll.
type polled struct {
	*startertest.Engine
	workflowservice.WorkflowServiceClient
}

func (p polled) WorkflowService() workflowservice.WorkflowServiceClient { return p }

func (p polled) ListWorkers(_ context.Context, r *workflowservice.ListWorkersRequest, _ ...grpc.CallOption) (*workflowservice.ListWorkersResponse, error) {
	if r.Namespace != "ns" {
		return nil, serviceerror.NewNamespaceNotFound(r.Namespace)
	}
	if len(r.NextPageToken) == 0 {
		return &workflowservice.ListWorkersResponse{Workers: []*workerpb.WorkerListInfo{{TaskQueue: "wakepoint"}, {TaskQueue: "other-host-h3"}}, NextPageToken: []byte("2")}, nil
	}
	return &workflowservice.ListWorkersResponse{Workers: []*workerpb.WorkerListInfo{{TaskQueue: "wakepoint-host-h3"}, {TaskQueue: "wakepoint-host-h3"}}}, nil
}

// TestHostsAreFoundByTheirWorkers: of an orphan's host no task may be left to tell.
func TestHostsAreFoundByTheirWorkers(t *testing.T) {
	t.Parallel()
	engine := startertest.New()
	engine.SetJobs("vet", "wakepoint-host-h3", []protocol.ListedJob{job("acme/nobody/1", "running", "h3")})
	for namespace, want := range map[string]int{"ns": 1, "": 0, "another": 0} {
		w := setup(t, func(o *starter.Options) { o.Temporal, o.Namespace = polled{Engine: engine}, namespace })
		out, err := w.Orphans(t.Context(), starter.OrphansRequest{})
		if err != nil || len(out.Orphans) != want || len(out.Unlisted) != 1-want {
			t.Errorf("namespace %q: %+v (%v)", namespace, out, err)
		}
	}
}

// TestWhatIsNotKnownIsNoOrphan: a queue without a worker, a task without an answer.
func TestWhatIsNotKnownIsNoOrphan(t *testing.T) {
	t.Parallel()
	w := setup(t)
	out, err := w.Orphans(t.Context(), starter.OrphansRequest{})
	if err != nil || len(out.Unlisted) != 1 || out.Unlisted[0].Error.Hint != "name the hosts: --host" {
		t.Errorf("no host is known: %+v (%v)", out, err)
	}
	out, err = w.Orphans(t.Context(), starter.OrphansRequest{Hosts: []string{"h9"}})
	if err != nil || len(out.Unlisted) != 1 || out.Unlisted[0].Error.Code != starter.CodeNoWorker || len(out.Orphans) != 0 {
		t.Errorf("nobody lists: %+v (%v)", out, err)
	}
	w.engine.SetJobs("vet", protocol.HostTaskQueue("wakepoint", "h1"), nil)
	out, err = w.Orphans(t.Context(), starter.OrphansRequest{Hosts: []string{"h1"}})
	if err != nil || !cmp.Equal(out.CannotList, []string{"vet"}) || len(out.Unlisted) != 0 {
		t.Errorf("it cannot list: %+v (%v)", out, err)
	}
	out, err = w.Orphans(t.Context(), starter.OrphansRequest{Tool: "approve"})
	if err != nil || !cmp.Equal(out.CannotList, []string{"approve"}) {
		t.Errorf("the world calls us: %+v (%v)", out, err)
	}
	_, err = w.Orphans(t.Context(), starter.OrphansRequest{Tool: "vett"})
	is(t, err, starter.ErrUnknownTool)
	_, err = w.Orphans(t.Context(), starter.OrphansRequest{Hosts: []string{"a b"}})
	is(t, err, starter.ErrInvalid)
}
