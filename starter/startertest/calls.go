package startertest

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	querypb "go.temporal.io/api/query/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

var notFound = serviceerror.NewNotFound("workflow not found for ID")

// ExecuteWorkflow starts a run, by the reuse and conflict policies of the options.
func (e *Engine) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	if err := e.call(ctx, "ExecuteWorkflow"); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.last(o.ID); f != nil {
		e.settle(f)
		failed := !f.open() && f.status != enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
		if !failed || o.WorkflowIDReusePolicy != enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY {
			return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "", f.runID)
		}
	}
	e.runs++
	f := &flow{
		id: o.ID, runID: fmt.Sprintf("run-%d", e.runs), typ: fmt.Sprint(workflow), options: o, input: payloads(args...),
		startedAtMs: e.Now(), status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING, updates: make(map[string]answer),
	}
	var into any = &f.in
	switch f.typ {
	case protocol.WorkflowDelivery:
		into = &f.delivery
	case protocol.WorkflowAgentRun:
		f.agent = &agentRun{}
		into = &f.agent.in
	}
	if err := converter.GetDefaultDataConverter().FromPayloads(f.input, into); err != nil {
		return nil, err
	}
	d := f.delivery
	f.record = protocol.DeliveryRecord{Key: d.Key, Kind: d.Kind, Target: d.Target, TaskID: d.Task.ID, State: protocol.DeliveryPending, Rounds: 1}
	e.flows[o.ID] = append(e.flows[o.ID], f)
	e.settle(f)
	e.notify()
	if e.lose() {
		return nil, serviceerror.NewUnavailable("the answer was lost")
	}
	return run{e: e, f: f}, nil
}

func (e *Engine) lose() bool {
	if e.lost == 0 {
		return false
	}
	e.lost--
	return true
}

type run struct {
	client.WorkflowRun
	e *Engine
	f *flow
}

func (r run) GetID() string { return r.f.id }

func (r run) GetRunID() string { return r.f.runID }

// Get waits for the end of the run.
func (r run) Get(ctx context.Context, into any) error {
	if err := r.e.call(ctx, "Get"); err != nil {
		return err
	}
	if r.f == nil {
		return notFound
	}
	if err := r.e.await(ctx, func() bool { return !r.f.open() }); err != nil {
		return err
	}
	switch {
	case r.f.status == enums.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return fmt.Errorf("workflow: %w", &temporal.TerminatedError{})
	case r.f.failure != nil:
		return fmt.Errorf("workflow: %w", r.f.failure)
	}
	return converter.GetDefaultDataConverter().FromPayloads(r.f.result, into)
}

// GetWorkflow names a run.
func (e *Engine) GetWorkflow(_ context.Context, workflowID, runID string) client.WorkflowRun {
	e.mu.Lock()
	defer e.mu.Unlock()
	return run{e: e, f: e.run(workflowID, runID)}
}

// DescribeWorkflow tells what the engine knows.
func (e *Engine) DescribeWorkflow(ctx context.Context, workflowID, runID string) (*client.WorkflowExecutionDescription, error) {
	if err := e.call(ctx, "DescribeWorkflow"); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.run(workflowID, runID)
	if f == nil {
		return nil, notFound
	}
	e.settle(f)
	d := &client.WorkflowExecutionDescription{RawResponse: &workflowservice.DescribeWorkflowExecutionResponse{}}
	d.WorkflowExecution.ID, d.WorkflowExecution.RunID, d.Status = f.id, f.runID, f.status
	d.Memo = f.memo()
	if !f.open() {
		at := time.UnixMilli(f.closedAtMs)
		d.WorkflowCloseTime = &at
	}
	if p := domain.Next(f.task, e.Now()); f.open() && f.begun && p.Lease {
		d.RawResponse.PendingActivities = append(d.RawResponse.PendingActivities, &workflowpb.PendingActivityInfo{
			ActivityId: protocol.LeaseActivityID(f.task.Attempts), ActivityType: &commonpb.ActivityType{Name: protocol.ActivityLease},
			State: enums.PENDING_ACTIVITY_STATE_STARTED, Attempt: 1, LastHeartbeatTime: timestamppb.New(time.UnixMilli(e.Now())),
			HeartbeatDetails: payloads("alive"),
		})
	}
	if why := e.failing[f.id]; why != nil && f.open() {
		d.RawResponse.PendingActivities = append(d.RawResponse.PendingActivities, &workflowpb.PendingActivityInfo{
			ActivityId: "1", ActivityType: &commonpb.ActivityType{Name: protocol.ActivitySubmit},
			State: enums.PENDING_ACTIVITY_STATE_SCHEDULED, Attempt: 3, LastFailure: why,
		})
	}
	return d, nil
}

// FailSubmissions makes the submissions of a task fail with a message and a type of
// error, and be repeated.
func (e *Engine) FailSubmissions(workflowID, message, kind string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failing == nil {
		e.failing = map[string]*failurepb.Failure{}
	}
	e.failing[workflowID] = &failurepb.Failure{
		Message:     message,
		FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: kind}},
	}
}

// events is a history: its first event, and with a long poll one more for each change
// of the engine until the run has closed.
type events struct {
	first *historypb.HistoryEvent
	more  func() bool
	id    int64
}

func (i *events) HasNext() bool { return i.first != nil || i.more != nil && i.more() }

func (i *events) Next() (*historypb.HistoryEvent, error) {
	i.id++
	if first := i.first; first != nil {
		i.first = nil
		return first, nil
	}
	if i.more == nil {
		return nil, io.EOF
	}
	return &historypb.HistoryEvent{EventId: i.id, EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED}, nil
}

// GetWorkflowHistory gives the first event, which is all that a client reads of it. A
// long poll goes on with what a client waits for: that something has changed.
func (e *Engine) GetWorkflowHistory(ctx context.Context, workflowID, runID string, longPoll bool, _ enums.HistoryEventFilterType) client.HistoryEventIterator {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls["GetWorkflowHistory"]++
	f := e.run(workflowID, runID)
	if f == nil {
		return &events{}
	}
	out := &events{first: &historypb.HistoryEvent{
		EventId: 1, EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
			WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{Input: f.input},
		},
	}}
	if longPoll {
		seen := e.changed
		out.more = func() bool {
			select {
			case <-seen:
			case <-ctx.Done():
				return false
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			seen = e.changed
			return f.open()
		}
	}
	return out
}

// QueryWorkflowWithOptions waits for a worker, unless the workflow has closed.
func (e *Engine) QueryWorkflowWithOptions(ctx context.Context, r *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error) {
	if err := e.call(ctx, "QueryWorkflowWithOptions"); err != nil {
		return nil, err
	}
	e.mu.Lock()
	held := e.held
	e.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var out *client.QueryWorkflowWithOptionsResponse
	var err error
	waited := e.await(ctx, func() bool {
		f := e.run(r.WorkflowID, r.RunID)
		if f == nil {
			err = notFound
			return true
		}
		e.settle(f)
		if !f.open() {
			out = &client.QueryWorkflowWithOptionsResponse{QueryRejected: &querypb.QueryRejected{Status: f.status}}
			return true
		}
		if e.away {
			return false
		}
		out = &client.QueryWorkflowWithOptionsResponse{QueryResult: client.NewValue(payloads(e.describe(f)))}
		return true
	})
	if waited != nil {
		return nil, waited
	}
	return out, err
}

type updateHandle struct {
	client.WorkflowUpdateHandle
	a answer
}

func (h updateHandle) Get(_ context.Context, into any) error {
	if h.a.err != nil {
		return h.a.err
	}
	return converter.GetDefaultDataConverter().FromPayloads(h.a.value, into)
}

// UpdateWorkflow waits for a worker. An update id that was answered is answered the
// same again, also once the workflow has closed.
func (e *Engine) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if err := e.call(ctx, "UpdateWorkflow"); err != nil {
		return nil, err
	}
	var h *updateHandle
	var err error
	waited := e.await(ctx, func() bool {
		f := e.run(o.WorkflowID, o.RunID)
		if f == nil {
			err = notFound
			return true
		}
		if a, ok := f.updates[o.UpdateID]; ok {
			h = &updateHandle{a: a}
			return true
		}
		if e.away && f.open() {
			return false
		}
		value, refused := e.update(f, o.UpdateName, o.Args[0])
		if _, gone := refused.(*serviceerror.NotFound); gone { //nolint:errorlint // made above, never wrapped
			err = refused
			return true
		}
		h = &updateHandle{a: answer{err: refused}}
		if refused == nil {
			h.a.value = payloads(value)
			f.updates[o.UpdateID] = h.a
			e.settle(f)
			e.notify()
		}
		return true
	})
	if waited != nil {
		return nil, client.NewWorkflowUpdateServiceTimeoutOrCanceledError(waited)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && h.a.err == nil && e.lose() {
		return nil, serviceerror.NewUnavailable("the answer was lost")
	}
	return h, err
}

// SignalWorkflow keeps a callback until a worker applies it.
func (e *Engine) SignalWorkflow(ctx context.Context, workflowID, runID, name string, arg any) error {
	if err := e.call(ctx, "SignalWorkflow"); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.run(workflowID, runID)
	if f == nil {
		return notFound
	}
	e.settle(f)
	if !f.open() {
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	if n, ok := arg.(protocol.TaskFinished); ok && name == protocol.SignalTaskFinished {
		f.finished = append(f.finished, n)
	}
	if s, ok := arg.(protocol.RunSaid); ok && name == protocol.SignalInput && f.agent != nil {
		f.agent.said = append(f.agent.said, s)
	}
	if c, ok := arg.(domain.Callback); ok && name == protocol.SignalCallback {
		f.signals = append(f.signals, c)
	}
	e.settle(f)
	e.notify()
	return nil
}

// CancelWorkflow is the engine's own request to cancel.
func (e *Engine) CancelWorkflow(ctx context.Context, workflowID, runID string) error {
	if err := e.call(ctx, "CancelWorkflow"); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.run(workflowID, runID)
	if f == nil || !f.open() {
		return notFound
	}
	f.cancelled = true
	e.settle(f)
	e.notify()
	return nil
}

var filter = regexp.MustCompile(`(\w+) (=|!=) '((?:[^'\\]|\\.)*)'`)

// ListWorkflow filters by equality and gives the newest first. The page token is
// the number of workflows that came before.
func (e *Engine) ListWorkflow(ctx context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if err := e.call(ctx, "ListWorkflow"); err != nil {
		return nil, err
	}
	e.mu.Lock()
	held := e.heldLists
	e.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*workflowpb.WorkflowExecutionInfo
	for _, runs := range e.flows {
		for _, f := range runs {
			if f.matches(r.Query) {
				all = append(all, f.info())
			}
		}
	}
	slices.SortFunc(all, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		if d := b.StartTime.AsTime().Compare(a.StartTime.AsTime()); d != 0 {
			return d
		}
		return strings.Compare(b.Execution.RunId, a.Execution.RunId)
	})
	from := len(r.NextPageToken)
	if from > len(all) {
		return nil, serviceerror.NewInvalidArgument("invalid NextPageToken")
	}
	to := min(from+int(r.PageSize), len(all))
	out := &workflowservice.ListWorkflowExecutionsResponse{Executions: all[from:to]}
	if to < len(all) {
		out.NextPageToken = make([]byte, to)
	}
	return out, nil
}

func (f *flow) memo() *commonpb.Memo {
	m := &commonpb.Memo{Fields: make(map[string]*commonpb.Payload)}
	for k, v := range f.options.Memo {
		m.Fields[k] = payloads(v).Payloads[0]
	}
	return m
}

func (f *flow) attributes() map[string]string {
	all := map[string]string{"WorkflowType": f.typ, "ExecutionStatus": f.status.String()}
	for k, v := range f.options.TypedSearchAttributes.GetUntypedValues() {
		all[k.GetName()] = fmt.Sprint(v)
	}
	switch {
	case f.agent != nil && f.agent.run.State != "":
		all[protocol.AttrState.GetName()] = string(f.agent.run.State)
	case f.typ != protocol.WorkflowAsyncTask:
	case f.task.State.Terminal():
		all[protocol.AttrState.GetName()] = string(f.task.State)
	case f.task.AsksPerson():
		all[protocol.AttrState.GetName()] = protocol.StateManual
	}
	return all
}

func (f *flow) matches(query string) bool {
	have := f.attributes()
	for _, m := range filter.FindAllStringSubmatch(query, -1) {
		value := strings.NewReplacer(`\'`, `'`, `\\`, `\`).Replace(m[3])
		if (have[m[1]] == value) != (m[2] == "=") {
			return false
		}
	}
	return true
}

func (f *flow) info() *workflowpb.WorkflowExecutionInfo {
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: f.id, RunId: f.runID}, Type: &commonpb.WorkflowType{Name: f.typ},
		StartTime: timestamppb.New(time.UnixMilli(f.startedAtMs)), Status: f.status,
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: make(map[string]*commonpb.Payload)},
	}
	if !f.open() {
		info.CloseTime = timestamppb.New(time.UnixMilli(f.closedAtMs))
		info.ExecutionDuration = durationpb.New(time.Duration(f.closedAtMs-f.startedAtMs) * time.Millisecond)
	}
	info.Memo = f.memo()
	for k, v := range f.attributes() {
		info.SearchAttributes.IndexedFields[k] = payloads(v).Payloads[0]
	}
	return info
}

// RecordActivityHeartbeatByID answers for the lease of an attempt.
func (e *Engine) RecordActivityHeartbeatByID(ctx context.Context, _, workflowID, _, activityID string, _ ...any) error {
	if err := e.call(ctx, "RecordActivityHeartbeatByID"); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.last(workflowID)
	if f == nil {
		return notFound
	}
	e.settle(f)
	switch t := f.task; {
	case !f.open() || !domain.Next(t, e.Now()).Lease || protocol.LeaseActivityID(t.Attempts) != activityID:
		return serviceerror.NewNotFound("activity not found")
	case t.Cancel != nil:
		return temporal.NewCanceledError()
	}
	return nil
}

type activityHandle struct {
	client.ActivityHandle
	out any
	err error
}

func (h activityHandle) Get(_ context.Context, into any) error {
	if h.err != nil || into == nil {
		return h.err
	}
	return converter.GetDefaultDataConverter().FromPayloads(payloads(h.out), into)
}

// ExecuteActivity plays the activities that a client runs on its own: reading logs,
// listing jobs and stopping one.
func (e *Engine) ExecuteActivity(ctx context.Context, o client.StartActivityOptions, activity any, args ...any) (client.ActivityHandle, error) {
	if err := e.call(ctx, "ExecuteActivity"); err != nil {
		return nil, err
	}
	if err := e.await(ctx, func() bool { return !e.away }); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch req := args[0].(type) {
	case protocol.LogsRequest:
		return e.readLogs(req), nil
	case protocol.ListJobsRequest:
		return e.listJobs(req, o.TaskQueue), nil
	case protocol.CancelRequest:
		e.stopped = append(e.stopped, req.Job)
		return activityHandle{}, nil
	}
	return nil, serviceerror.NewInvalidArgument(fmt.Sprintf("unknown activity %v", activity))
}

func (e *Engine) readLogs(req protocol.LogsRequest) activityHandle {
	data, ok := e.logs[req.Handle.ID+"/"+req.Stream]
	if !ok {
		return activityHandle{err: crossed(temporal.NewNonRetryableApplicationError("the job keeps no logs", "no-logs", nil))}
	}
	from := min(req.Offset, int64(len(data)))
	to := min(from+int64(req.Limit), int64(len(data)))
	f := e.last(protocol.TaskWorkflowID(req.Tenant, req.TaskID))
	return activityHandle{out: protocol.LogsResult{
		Data: data[from:to], Offset: from, Next: to, End: to == int64(len(data)) && f != nil && f.task.State.Terminal(),
	}}
}

// listJobs gives pages of two, so that whoever lists has to go on. A queue that no
// worker polls is one without a list.
func (e *Engine) listJobs(req protocol.ListJobsRequest, queue string) activityHandle {
	jobs, polled := e.jobs[req.Tool+"@"+queue]
	if !polled {
		return activityHandle{err: temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)}
	}
	if jobs == nil {
		return activityHandle{out: protocol.ListJobsResult{}}
	}
	const page = 2
	from := len(req.Cursor)
	to := min(from+page, len(jobs))
	out := protocol.ListJobsResult{Supported: true, Jobs: jobs[from:to]}
	if to < len(jobs) {
		out.Next = strings.Repeat("x", to)
	}
	return activityHandle{out: out}
}
