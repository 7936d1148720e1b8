package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// Ready is what --ready-file holds, as JSON, while an engine answers. Fields are only ever added.
type Ready struct {
	// PID of the engine's process.
	PID int `json:"pid"`
	// FrontendAddress is the host:port for Temporal clients on this machine.
	FrontendAddress string `json:"frontendAddress"`
	// HTTPAddress is the host:port of the frontend's HTTP API.
	HTTPAddress string `json:"httpAddress"`
	// UIURL is where a browser on this machine finds the Temporal UI. Empty with --headless.
	UIURL string `json:"uiUrl"`
	// MetricsURL is the Prometheus endpoint. Empty without --metrics-port.
	MetricsURL string `json:"metricsUrl,omitempty"`
	// Namespaces are those of the command line, the first one is the default.
	Namespaces []string `json:"namespaces"`
	// DataDir is the folder of the database files.
	DataDir string `json:"dataDir"`
	// Temporary says that DataDir is removed at stop.
	Temporary bool `json:"temporary"`
	// Synchronous is the durability: full, normal, or off in a temporary folder.
	Synchronous string `json:"synchronous"`
	// Version of the engine and of the Temporal server in it.
	Version string `json:"version"`
}

func readyOf(o options, p listeners, d *dataFiles) Ready {
	r := Ready{
		PID:             os.Getpid(),
		FrontendAddress: hostPort(dialIP(o.ip), p.frontend),
		HTTPAddress:     hostPort(dialIP(o.ip), p.http),
		UIURL:           uiURL(o, p),
		Namespaces:      o.namespaces,
		DataDir:         d.dir,
		Temporary:       d.temporary,
		Synchronous:     o.synchronous,
		Version:         versionLine(),
	}
	if o.metricsPort != portUnset {
		r.MetricsURL = "http://" + hostPort(dialIP(o.ip), p.metrics) + "/metrics"
	}
	return r
}

// writeReady puts r at path in one step, so that a reader sees all of it or nothing.
func writeReady(path string, r Ready) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode ready file: %w", err)
	}
	draft, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write ready file: %w", err)
	}
	_, err = draft.Write(append(data, '\n'))
	if err = errors.Join(err, draft.Close()); err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		_ = os.Remove(draft.Name())
		return fmt.Errorf("write ready file: %w", err)
	}
	return nil
}

// removeReady takes the file away; one that is not there is fine.
func removeReady(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove ready file: %w", err)
	}
	return nil
}

const (
	// readyTimeout bounds the wait for a server that has started its services; it takes milliseconds.
	readyTimeout = 30 * time.Second
	// readyPause lies between two tries.
	readyPause = 10 * time.Millisecond
)

// awaitAnswers returns when the frontend knows all namespaces and the UI, if there is one, serves its page.
func awaitAnswers(ctx context.Context, r Ready) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+r.FrontendAddress,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: readyPause, Multiplier: 1, MaxDelay: readyPause}, MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return fmt.Errorf("connect to the frontend: %w", err)
	}
	defer func() { _ = conn.Close() }()
	frontend := workflowservice.NewWorkflowServiceClient(conn)
	for _, name := range r.Namespaces {
		err := retry(ctx, func() error {
			_, err := frontend.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
			return err
		})
		if err != nil {
			return fmt.Errorf("the frontend on %s does not answer for namespace %s: %w", r.FrontendAddress, name, err)
		}
	}
	if r.UIURL == "" {
		return nil
	}
	if err := retry(ctx, func() error { return checkPage(ctx, r.UIURL) }); err != nil {
		return fmt.Errorf("the UI on %s does not answer: %w", r.UIURL, err)
	}
	return nil
}

// retry calls try until it succeeds or ctx ends, and returns the last error.
func retry(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(readyPause):
		}
	}
}

func checkPage(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// Not the default transport: it would ask a proxy of the environment.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}
