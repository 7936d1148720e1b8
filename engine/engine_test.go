package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/engine"
)

// TestRestartKeepsEverythingAndCreatesNothingTwice starts three times on the same files: as new, the same again, and
// with a namespace and a search attribute more.
func TestRestartKeepsEverythingAndCreatesNothingTwice(t *testing.T) {
	t.Parallel()
	// A folder whose name would end the path of a SQLite URI, or mean something else in it.
	dir := filepath.Join(t.TempDir(), "my data?a=b#c%41")
	flags := []string{"--data-dir", dir, "--headless", "--namespace", "one", "--search-attribute", "Colour=Keyword"}

	first := startChild(t, nil, nil, flags...)
	runID := startWorkflow(t, first.client(t, "one"), "kept")
	namespaces, attributes := describe(t, first, "one")
	wantAttributes := append([]string{"Colour=Keyword"}, ownAsKeywords()...)
	slices.Sort(wantAttributes)
	if diff := cmp.Diff(wantAttributes, attributes); diff != "" {
		t.Errorf("search attributes at first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]time.Duration{"one": 168 * time.Hour}, retentions(namespaces)); diff != "" {
		t.Errorf("namespaces at first (-want +got):\n%s", diff)
	}
	first.stop(t)
	for _, name := range []string{"main.db-wal", "visibility.db-wal"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Size() > 0 {
			t.Errorf("%s holds %d bytes after a clean stop", name, info.Size())
		}
	}

	second := startChild(t, nil, nil, flags...)
	checkWorkflow(t, second.client(t, "one"), "kept", runID)
	again, attributes := describe(t, second, "one")
	if diff := cmp.Diff(wantAttributes, attributes); diff != "" {
		t.Errorf("search attributes after a restart (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ids(namespaces), ids(again)); diff != "" {
		t.Errorf("namespaces after a restart (-want +got):\n%s", diff)
	}
	second.stop(t)

	third := startChild(t, nil, nil, append(flags, "--namespace", "two", "--search-attribute", "Size=Int")...)
	checkWorkflow(t, third.client(t, "one"), "kept", runID)
	for _, name := range []string{"one", "two"} {
		namespaces, attributes = describe(t, third, name)
		if diff := cmp.Diff(append(slices.Clone(wantAttributes[:1]), append([]string{"Size=Int"}, wantAttributes[1:]...)...), attributes); diff != "" {
			t.Errorf("search attributes of %s with one more (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(map[string]time.Duration{"one": 168 * time.Hour, "two": 168 * time.Hour}, retentions(namespaces)); diff != "" {
		t.Errorf("namespaces with one more (-want +got):\n%s", diff)
	}
	if ids(namespaces)["one"] != ids(again)["one"] {
		t.Error("the first namespace got another id")
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, step := range []struct {
		args []string
		want time.Duration
		why  string
	}{
		{[]string{"--retention", "2h"}, 2 * time.Hour, "a new namespace gets what is given"},
		{nil, 2 * time.Hour, "the default does not touch an existing one"},
		{[]string{"--retention", "3h"}, 3 * time.Hour, "a given one does"},
	} {
		e := startChild(t, nil, nil, append([]string{"--data-dir", dir, "--headless"}, step.args...)...)
		namespaces, _ := describe(t, e, "default")
		if got := retentions(namespaces)["default"]; got != step.want {
			t.Errorf("%s: retention %s, want %s", step.why, got, step.want)
		}
		e.stop(t)
	}
}

// TestSecondInstanceIsRefused also comes by other ways to the same file.
func TestSecondInstanceIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	e := startEngine(t, "--data-dir", dir, "--headless")
	for _, place := range [][]string{
		{"--data-dir", dir},
		{"--data-dir", filepath.Join(dir, "..", filepath.Base(dir))},
		{"--data-dir", link},
		{"--db-filename", filepath.Join(dir, "main.db")},
	} {
		began := time.Now()
		code, _, stderr := refused(append([]string{"server", "start-dev", "--port", "0", "--ready-file", e.readyFile}, place...)...)
		if code != engine.ExitInUse {
			t.Errorf("%v: exit %d, want %d", place, code, engine.ExitInUse)
		}
		for _, part := range []string{"in use by process " + strconv.Itoa(os.Getpid()), "listens on " + e.FrontendAddress, "hint: "} {
			if !strings.Contains(stderr, part) {
				t.Errorf("%v: %q is not in: %s", place, part, stderr)
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%v: refused after %s", place, took)
		}
	}
	if _, err := os.Stat(e.readyFile); err != nil {
		t.Errorf("the refused ones touched the ready file: %v", err)
	}
	startWorkflow(t, e.client(t, "default"), "undisturbed")
}

func TestDynamicConfig(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args  []string
		limit int
	}{
		"default":  {nil, 255},
		"override": {[]string{"--dynamic-config-value", "limit.maxIDLength=40"}, 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEngine(t, append([]string{"--headless"}, tc.args...)...)
			c := e.client(t, "default")
			startWorkflow(t, c, strings.Repeat("i", tc.limit))
			_, err := c.ExecuteWorkflow(t.Context(), sdkclient.StartWorkflowOptions{ID: strings.Repeat("i", tc.limit+1), TaskQueue: "q"}, "w")
			var invalid *serviceerror.InvalidArgument
			if !errors.As(err, &invalid) {
				t.Errorf("an id of %d: %v, want invalid argument", tc.limit+1, err)
			}
		})
	}
}

// TestWorkflowPauseIsOn stands for the settings that switch something on, which take a typed value and are silently
// ignored when it has another type.
func TestWorkflowPauseIsOn(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--headless")
	c := e.client(t, "default")
	runID := startWorkflow(t, c, "paused")
	_, err := c.WorkflowService().PauseWorkflowExecution(t.Context(), &workflowservice.PauseWorkflowExecutionRequest{
		Namespace: "default", WorkflowId: "paused", RunId: runID, Identity: "test", Reason: "test", RequestId: "r",
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.DescribeWorkflowExecution(t.Context(), "paused", runID)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.GetWorkflowExecutionInfo().GetStatus(); got != enums.WORKFLOW_EXECUTION_STATUS_PAUSED {
		t.Errorf("status %s, want paused", got)
	}
}

func TestPortIsTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for _, flag := range []string{"--port", "--http-port", "--ui-port", "--metrics-port"} {
		args := []string{"server", "start-dev", "--port", "0", flag, port, "--data-dir", t.TempDir()}
		code, stdout, stderr := refused(args...)
		if code != engine.ExitError || stdout != "" || !strings.Contains(stderr, flag+": can't listen on 127.0.0.1:"+port) || !strings.Contains(stderr, "hint: ") {
			t.Errorf("%s: exit %d, stdout %q, stderr: %s", flag, code, stdout, stderr)
		}
	}
	code, _, stderr := refused("server", "start-dev", "--port", "0", "--ui-port", "1", "--http-port", "1", "--ip", "192.0.2.1")
	if code != engine.ExitError || !strings.Contains(stderr, "192.0.2.1") {
		t.Errorf("an address that is not of this machine: exit %d, stderr: %s", code, stderr)
	}
}

// TestUIMovesFromItsUsualPort takes the port beside the frontend's before the engine does.
func TestUIMovesFromItsUsualPort(t *testing.T) {
	t.Parallel()
	frontend, usual := portPair(t)
	defer func() { _ = usual.Close() }()
	e := startEngine(t, "--port", strconv.Itoa(frontend)) // the later flag counts
	if e.UIURL == "" || strings.HasSuffix(e.UIURL, fmt.Sprintf(":%d", frontend+1000)) {
		t.Errorf("the UI is said to be at %q", e.UIURL)
	}
	if want := fmt.Sprintf("(port %d is taken)", frontend+1000); !strings.Contains(e.stdout.String(), want) {
		t.Errorf("%q is not in: %s", want, e.stdout)
	}
	if e.FrontendAddress != fmt.Sprintf("127.0.0.1:%d", frontend) {
		t.Errorf("frontend at %s, want port %d", e.FrontendAddress, frontend)
	}
}

// portPair finds a free port for which the port 1000 above is free too, and holds the upper one.
func portPair(t *testing.T) (lower int, upper net.Listener) {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		lower = l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		if lower > 64535 {
			continue
		}
		if upper, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lower+1000)); err == nil {
			return lower, upper
		}
	}
	t.Fatal("no pair of free ports")
	return 0, nil
}

func TestOpenAddressIsWarnedAbout(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--ip", "0.0.0.0")
	if !strings.HasPrefix(e.FrontendAddress, "127.0.0.1:") || !strings.HasPrefix(e.UIURL, "http://127.0.0.1:") {
		t.Errorf("addresses %s and %s are not for this machine", e.FrontendAddress, e.UIURL)
	}
	for _, want := range []string{"warning: --ip 0.0.0.0: there is no authentication", "warning: --ui-ip 0.0.0.0: "} {
		if !strings.Contains(e.stderr.String(), want) {
			t.Errorf("%q is not in: %s", want, e.stderr)
		}
	}
	startWorkflow(t, e.client(t, "default"), "reached")
	closed := startEngine(t, "--headless")
	if got := closed.stderr.String(); strings.Contains(got, "warning: ") {
		t.Errorf("an engine on loopback warns: %s", got)
	}
}

func startWorkflow(t *testing.T, c sdkclient.Client, id string) (runID string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tenant := temporal.NewSearchAttributeKeyKeyword("WakepointTenant").ValueSet("acme")
	run, err := c.ExecuteWorkflow(ctx, sdkclient.StartWorkflowOptions{
		ID: id, TaskQueue: "q", TypedSearchAttributes: temporal.NewSearchAttributes(tenant),
	}, "w")
	if err != nil {
		t.Fatal(err)
	}
	return run.GetRunID()
}

// checkWorkflow finds the run by its id and, once, by its search attribute.
func checkWorkflow(t *testing.T, c sdkclient.Client, id, runID string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := c.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		t.Fatal(err)
	}
	info := d.GetWorkflowExecutionInfo()
	if info.GetExecution().GetRunId() != runID || info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		t.Errorf("workflow %s is run %s, %s; want %s, running", id, info.GetExecution().GetRunId(), info.GetStatus(), runID)
	}
	var count int64
	eventually(t, "the workflow in the list", func() bool {
		n, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: "WakepointTenant = 'acme'"})
		if err != nil {
			t.Fatal(err)
		}
		count = n.GetCount()
		return count > 0
	})
	if count != 1 {
		t.Errorf("the list has the workflow %d times", count)
	}
}

// describe lists the namespaces of e, without the server's own, and the search attributes of one as name=type.
func describe(t *testing.T, e *running, namespace string) ([]*workflowservice.DescribeNamespaceResponse, []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := e.client(t, namespace)
	list, err := c.WorkflowService().ListNamespaces(ctx, &workflowservice.ListNamespacesRequest{PageSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	namespaces := slices.DeleteFunc(list.GetNamespaces(), func(n *workflowservice.DescribeNamespaceResponse) bool {
		return n.GetNamespaceInfo().GetName() == "temporal-system"
	})
	found, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	var attributes []string
	for _, name := range slices.Sorted(maps.Keys(found.GetCustomAttributes())) {
		attributes = append(attributes, name+"="+found.GetCustomAttributes()[name].String())
	}
	return namespaces, attributes
}

func ownAsKeywords() []string {
	var out []string
	for _, name := range engine.OwnAttributes() {
		out = append(out, name+"=Keyword")
	}
	return out
}

func ids(list []*workflowservice.DescribeNamespaceResponse) map[string]string {
	out := map[string]string{}
	for _, n := range list {
		out[n.GetNamespaceInfo().GetName()] += n.GetNamespaceInfo().GetId() // twice the name, twice the id
	}
	return out
}

func retentions(list []*workflowservice.DescribeNamespaceResponse) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, n := range list {
		out[n.GetNamespaceInfo().GetName()] += n.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	}
	return out
}
