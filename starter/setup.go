package starter

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Services are the raw services of a Temporal client; [client.Client] has them.
type Services interface {
	WorkflowService() workflowservice.WorkflowServiceClient
	OperatorService() operatorservice.OperatorServiceClient
}

// SetupOptions say what a cluster is prepared for.
type SetupOptions struct {
	// Namespace is where Wakepoint works. Default: "default".
	Namespace string
	// Retention is how long the engine keeps what has ended. It is the horizon of
	// ids, idempotency keys and results; at least an hour. Of a namespace that
	// exists it is left as it is. Default: 7 days, as on the embedded engine.
	Retention time.Duration
	// Wait bounds the time until the engine shows what was made. Default: 1m.
	Wait time.Duration
}

func (o SetupOptions) withDefaults() SetupOptions {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.Retention == 0 {
		o.Retention = 7 * 24 * time.Hour
	}
	if o.Wait == 0 {
		o.Wait = time.Minute
	}
	return o
}

// SetupReport says what was made and what was there.
type SetupReport struct {
	Namespace        string        `json:"namespace"`
	NamespaceCreated bool          `json:"namespaceCreated"`
	Retention        time.Duration `json:"-"`
	RetentionMs      int64         `json:"retentionMs"`
	// AttributesAdded and AttributesPresent are our search attributes.
	AttributesAdded   []string `json:"attributesAdded"`
	AttributesPresent []string `json:"attributesPresent"`
}

// Setup prepares a cluster: the namespace and our search attributes, only what is
// missing. Doing it twice, or at once from two places, makes nothing twice. Errors:
// invalid-request, conflict (a search attribute has another type), denied,
// unavailable.
func Setup(ctx context.Context, s Services, o SetupOptions) (SetupReport, error) {
	o = o.withDefaults()
	if o.Retention < time.Hour {
		return SetupReport{}, invalid(domain.Invalid("retention", "must be at least 1h, it is %s", o.Retention))
	}
	wait, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	r := SetupReport{Namespace: o.Namespace, AttributesAdded: []string{}, AttributesPresent: []string{}}
	if err := setupNamespace(wait, s, o, &r); err != nil {
		return r, engineError(ctx, "set up namespace "+o.Namespace, err)
	}
	if err := setupAttributes(wait, s, o, &r); err != nil {
		return r, engineError(ctx, "set up search attributes", err)
	}
	return r, nil
}

func setupNamespace(ctx context.Context, s Services, o SetupOptions, r *SetupReport) error {
	describe := func() (time.Duration, error) {
		d, err := s.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: o.Namespace})
		return d.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration(), err
	}
	retention, err := describe()
	if !missing(err) {
		r.Retention, r.RetentionMs = retention, retention.Milliseconds()
		return err
	}
	_, err = s.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: o.Namespace, Description: "Wakepoint: durable tasks", WorkflowExecutionRetentionPeriod: durationpb.New(o.Retention),
	})
	var exists *serviceerror.NamespaceAlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return err
	}
	r.NamespaceCreated = err == nil
	// A new namespace reaches every part of the engine after some seconds.
	return until(ctx, func() (bool, error) {
		retention, err := describe()
		r.Retention, r.RetentionMs = retention, retention.Milliseconds()
		if missing(err) {
			return false, nil
		}
		return err == nil, err
	})
}

func missing(err error) bool {
	var ns *serviceerror.NamespaceNotFound
	return errors.As(err, &ns) || notFound(err)
}

func setupAttributes(ctx context.Context, s Services, o SetupOptions, r *SetupReport) error {
	lacking, err := attributes(ctx, s, o.Namespace)
	if err != nil {
		return err
	}
	for _, name := range protocol.SearchAttributes() {
		if !slices.Contains(lacking, name) {
			r.AttributesPresent = append(r.AttributesPresent, name)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	types := make(map[string]enums.IndexedValueType, len(lacking))
	for _, name := range lacking {
		types[name] = enums.INDEXED_VALUE_TYPE_KEYWORD
	}
	_, err = s.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: o.Namespace, SearchAttributes: types})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return err
	}
	if err == nil {
		r.AttributesAdded = lacking
	}
	return until(ctx, func() (bool, error) {
		lacking, err := attributes(ctx, s, o.Namespace)
		return err == nil && len(lacking) == 0, err
	})
}

// attributes lists those of ours that the namespace lacks.
func attributes(ctx context.Context, s Services, namespace string) (lacking []string, err error) {
	var resp *operatorservice.ListSearchAttributesResponse
	err = until(ctx, func() (bool, error) {
		var err error
		resp, err = s.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
		if missing(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range protocol.SearchAttributes() {
		switch t, ok := resp.GetCustomAttributes()[name]; {
		case !ok:
			lacking = append(lacking, name)
		case t != enums.INDEXED_VALUE_TYPE_KEYWORD:
			return nil, fail(CodeConflict, "use a namespace of our own", "search attribute %s is there with type %s, it must be Keyword", name, t)
		}
	}
	return lacking, nil
}

// until repeats a look until it is satisfied, or fails for good.
func until(ctx context.Context, look func() (bool, error)) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		done, err := look()
		if done || err != nil && !transient(err) {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}
