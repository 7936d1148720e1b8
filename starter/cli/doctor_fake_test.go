package cli_test

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// fakeCluster is an engine as doctor asks it.
type fakeCluster struct {
	workflowservice.WorkflowServiceClient
	operatorservice.OperatorServiceClient

	// clock is the engine's own.
	clock     func() time.Time
	namespace string
	retention time.Duration
	caps      *namespace.NamespaceInfo_Capabilities
	// attributes are the search attributes that are there.
	attributes map[string]enums.IndexedValueType
	// pollers are those of each queue, by its name with w/ or a/ before it.
	pollers map[string][]*taskqueue.PollerInfo
	backlog map[string]int64
	// errs are what calls give, by their name.
	errs map[string]error

	mu sync.Mutex
	// polled are the queues that were polled, and by whom.
	polled map[string]*taskqueue.PollerInfo
	closed int
}

// newCluster is an engine on which nothing is wrong.
func newCluster(clock func() time.Time) *fakeCluster {
	c := &fakeCluster{
		clock: clock, namespace: "default", retention: 7 * 24 * time.Hour,
		caps:       &namespace.NamespaceInfo_Capabilities{SyncUpdate: true, StandaloneActivities: true},
		attributes: map[string]enums.IndexedValueType{}, pollers: map[string][]*taskqueue.PollerInfo{}, backlog: map[string]int64{},
		errs: map[string]error{}, polled: map[string]*taskqueue.PollerInfo{},
	}
	for _, name := range protocol.SearchAttributes() {
		c.attributes[name] = enums.INDEXED_VALUE_TYPE_KEYWORD
	}
	c.serve("w/wakepoint", "1@here", 0)
	c.serve("a/wakepoint", "1@here", 0)
	return c
}

// serve adds a worker that polled so long ago.
func (c *fakeCluster) serve(queue, identity string, ago time.Duration) *taskqueue.PollerInfo {
	p := &taskqueue.PollerInfo{Identity: identity, LastAccessTime: timestamppb.New(c.clock().Add(-ago)), RatePerSecond: 100_000}
	c.pollers[queue] = append(c.pollers[queue], p)
	return p
}

func (c *fakeCluster) WorkflowService() workflowservice.WorkflowServiceClient { return c }

func (c *fakeCluster) OperatorService() operatorservice.OperatorServiceClient { return c }

func (c *fakeCluster) Close() { c.closed++ }

func (c *fakeCluster) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest, ...grpc.CallOption) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{ServerVersion: "1.2.3"}, c.errs["system"]
}

func (c *fakeCluster) DescribeNamespace(_ context.Context, r *workflowservice.DescribeNamespaceRequest, _ ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error) {
	if r.Namespace != c.namespace {
		return nil, serviceerror.NewNamespaceNotFound(r.Namespace)
	}
	return &workflowservice.DescribeNamespaceResponse{
		NamespaceInfo: &namespace.NamespaceInfo{Capabilities: c.caps},
		Config:        &namespace.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(c.retention)},
	}, c.errs["namespace"]
}

func (c *fakeCluster) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: c.attributes}, c.errs["attributes"]
}

func (c *fakeCluster) PollActivityTaskQueue(ctx context.Context, r *workflowservice.PollActivityTaskQueueRequest, _ ...grpc.CallOption) (*workflowservice.PollActivityTaskQueueResponse, error) {
	if err := c.errs["poll"]; err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.polled[r.TaskQueue.Name] = &taskqueue.PollerInfo{Identity: r.Identity, LastAccessTime: timestamppb.New(c.clock())}
	c.mu.Unlock()
	<-ctx.Done()
	return nil, ctx.Err()
}

func (c *fakeCluster) DescribeTaskQueue(_ context.Context, r *workflowservice.DescribeTaskQueueRequest, _ ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	kind := "a/"
	if r.TaskQueueType == enums.TASK_QUEUE_TYPE_WORKFLOW {
		kind = "w/"
	}
	queue := kind + r.TaskQueue.Name
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := &workflowservice.DescribeTaskQueueResponse{Pollers: c.pollers[queue], Stats: &taskqueue.TaskQueueStats{ApproximateBacklogCount: c.backlog[queue]}}
	if p := c.polled[r.TaskQueue.Name]; p != nil {
		resp.Pollers = append(resp.Pollers, p)
	}
	return resp, c.errs["queue"]
}
