package starter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// cluster has one namespace, perhaps, and shows what is new after a while.
type cluster struct {
	workflowservice.WorkflowServiceClient
	operatorservice.OperatorServiceClient

	retention  time.Duration // 0 is no namespace
	seenAfter  time.Time
	attributes map[string]enums.IndexedValueType
	lag        time.Duration
	err        error
	registered int
	added      int
}

func (c *cluster) WorkflowService() workflowservice.WorkflowServiceClient { return c }

func (c *cluster) OperatorService() operatorservice.OperatorServiceClient { return c }

func (c *cluster) there() error {
	switch {
	case c.err != nil:
		return c.err
	case c.retention == 0 || time.Now().Before(c.seenAfter):
		return serviceerror.NewNamespaceNotFound("ns")
	}
	return nil
}

func (c *cluster) DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest, ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error) {
	if err := c.there(); err != nil {
		return nil, err
	}
	return &workflowservice.DescribeNamespaceResponse{Config: &namespace.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(c.retention)}}, nil
}

func (c *cluster) RegisterNamespace(_ context.Context, r *workflowservice.RegisterNamespaceRequest, _ ...grpc.CallOption) (*workflowservice.RegisterNamespaceResponse, error) {
	if c.retention != 0 {
		return nil, serviceerror.NewNamespaceAlreadyExists("exists")
	}
	c.registered++
	c.retention, c.seenAfter = r.WorkflowExecutionRetentionPeriod.AsDuration(), time.Now().Add(c.lag)
	return &workflowservice.RegisterNamespaceResponse{}, nil
}

func (c *cluster) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	if err := c.there(); err != nil {
		return nil, err
	}
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: c.attributes}, nil
}

func (c *cluster) AddSearchAttributes(_ context.Context, r *operatorservice.AddSearchAttributesRequest, _ ...grpc.CallOption) (*operatorservice.AddSearchAttributesResponse, error) {
	c.added++
	for name, t := range r.SearchAttributes {
		if _, ok := c.attributes[name]; ok {
			return nil, serviceerror.NewAlreadyExists(name)
		}
		c.attributes[name] = t
	}
	return &operatorservice.AddSearchAttributesResponse{}, nil
}

func TestSetupMakesOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{lag: 7 * time.Second, attributes: map[string]enums.IndexedValueType{"WakepointTool": enums.INDEXED_VALUE_TYPE_KEYWORD, "Theirs": enums.INDEXED_VALUE_TYPE_TEXT}}
		r, err := starter.Setup(t.Context(), c, starter.SetupOptions{Namespace: "acme", Retention: 7 * 24 * time.Hour})
		want := starter.SetupReport{
			Namespace: "acme", NamespaceCreated: true, Retention: 168 * time.Hour, RetentionMs: 604_800_000,
			AttributesAdded: []string{"WakepointTenant", "WakepointRun", "WakepointToolCall", "WakepointState"}, AttributesPresent: []string{"WakepointTool"},
		}
		if diff := cmp.Diff(want, r); diff != "" || err != nil {
			t.Errorf("%s (%v)", diff, err)
		}
		r, err = starter.Setup(t.Context(), c, starter.SetupOptions{Namespace: "acme"})
		want = starter.SetupReport{
			Namespace: "acme", Retention: 168 * time.Hour, RetentionMs: 604_800_000, AttributesAdded: []string{}, AttributesPresent: protocol.SearchAttributes(),
		}
		if diff := cmp.Diff(want, r); diff != "" || err != nil {
			t.Errorf("again: %s (%v)", diff, err)
		}
		if c.registered != 1 || c.added != 1 {
			t.Errorf("registered %d times, added %d times", c.registered, c.added)
		}
	})
}

func TestSetupThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, err := starter.Setup(t.Context(), &cluster{}, starter.SetupOptions{Retention: time.Minute})
		if e := as(t, err, starter.ErrInvalid); e.Field != "retention" {
			t.Errorf("%v", err)
		}
		_, err = starter.Setup(t.Context(), &cluster{retention: 1, attributes: map[string]enums.IndexedValueType{"WakepointRun": enums.INDEXED_VALUE_TYPE_TEXT}}, starter.SetupOptions{})
		is(t, err, starter.ErrConflict)
		_, err = starter.Setup(t.Context(), &cluster{err: serviceerror.NewPermissionDenied("no", "")}, starter.SetupOptions{})
		is(t, err, starter.ErrDenied)
		_, err = starter.Setup(t.Context(), &cluster{err: serviceerror.NewUnavailable("gone")}, starter.SetupOptions{})
		is(t, err, starter.ErrUnavailable)
		_, err = starter.Setup(t.Context(), &cluster{lag: time.Hour}, starter.SetupOptions{})
		is(t, err, starter.ErrUnavailable)
		if _, err := starter.Setup(cancelled(t), &cluster{lag: time.Hour}, starter.SetupOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
