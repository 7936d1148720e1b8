package activities

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// Target is where deliveries go, declared by the operator.
type Target struct {
	// URL takes the webhooks.
	URL string
	// AskURL is asked, with the key in the query parameter id, whether the
	// target knows a delivery: 200 says yes, 404 no. Empty: it can't be asked.
	AskURL string
	// Secret signs; empty leaves the webhook unsigned.
	Secret []byte
	// Timeout is for one request. Default: 10 s.
	Timeout time.Duration
}

// maxRetryAfter bounds how long a receiver can put us off.
const maxRetryAfter = 6 * time.Hour

// webhookClient has no proxy of the environment, because that would let a
// variable of the worker redirect results, and follows no redirect, because a
// receiver that has moved is a mistake to be seen (a 3xx is a failure).
func webhookClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// webhook is the body: thin, the result itself is fetched by whoever may.
type webhook struct {
	Type      string      `json:"type"`
	Timestamp string      `json:"timestamp"`
	Data      webhookTask `json:"data"`
}

type webhookTask struct {
	TaskID     string             `json:"taskId"`
	Tenant     string             `json:"tenant"`
	Tool       string             `json:"tool"`
	RunID      string             `json:"runId,omitempty"`
	ToolCallID string             `json:"toolCallId,omitempty"`
	State      domain.State       `json:"state"`
	Version    int64              `json:"version"`
	ResultRef  string             `json:"resultRef,omitempty"`
	ResultHash string             `json:"resultHash,omitempty"`
	Error      *domain.TaskError  `json:"error,omitempty"`
	Late       *domain.LateResult `json:"lateResult,omitempty"`
}

// Send makes one attempt of a delivery: it asks a target that can be asked
// whether it has the key already, then sends under that key. A crash between
// sending and recording leads to one more send, which the receiver can tell by
// the webhook-id. Failures are retryable, but for 410 and an unknown target.
func (a *Activities) Send(ctx context.Context, req protocol.SendRequest) (protocol.SendResult, error) {
	t, ok := a.o.Targets[req.Target]
	if !ok {
		return protocol.SendResult{}, notDelivered("no target "+req.Target+" is declared in the worker's wakepoint.yaml", nil, 0, false)
	}
	if t.Timeout <= 0 {
		t.Timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	res := protocol.SendResult{SentAtMs: a.o.Now().UnixMilli(), Attempts: int(activity.GetInfo(ctx).Attempt)}
	if t.AskURL != "" {
		known, err := a.knows(ctx, t, req.Key)
		if err != nil {
			return res, err
		}
		if known {
			res.Known = true
			return res, nil
		}
	}
	code, err := a.post(ctx, t, req)
	res.StatusCode = code
	return res, err
}

func (a *Activities) knows(ctx context.Context, t Target, key string) (bool, error) {
	u, err := url.Parse(t.AskURL)
	if err != nil {
		return false, notURL()
	}
	q := u.Query()
	q.Set("id", key)
	u.RawQuery = q.Encode()
	r, err := newRequest(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return false, err
	}
	resp, err := a.o.HTTP.Do(r)
	if err != nil {
		return false, notDelivered("the target could not be asked", withoutURL(err), 0, true)
	}
	defer drain(resp.Body)
	switch resp.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusNotFound:
		return false, nil
	}
	return false, notDelivered("the target, asked, answered "+status(resp), nil, retryAfter(resp, a.o.Now()), true)
}

func (a *Activities) post(ctx context.Context, t Target, req protocol.SendRequest) (int, error) {
	now := a.o.Now()
	body, err := json.Marshal(webhook{Type: req.Type, Timestamp: now.UTC().Format(time.RFC3339Nano), Data: webhookTask{
		TaskID: req.Task.ID, Tenant: req.Tenant, Tool: req.Task.Tool, RunID: req.Task.RunID, ToolCallID: req.Task.ToolCallID,
		State: req.Task.State, Version: req.Task.Version, ResultRef: req.Task.ResultRef, ResultHash: req.Task.ResultHash,
		Error: req.Task.Error, Late: req.Task.Late,
	}})
	if err != nil {
		return 0, err
	}
	r, err := newRequest(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "wakepoint")
	r.Header.Set("Webhook-Id", req.Key)
	r.Header.Set("Webhook-Timestamp", stamp)
	if len(t.Secret) > 0 {
		r.Header.Set("Webhook-Signature", sign(t.Secret, req.Key, stamp, body))
	}
	resp, err := a.o.HTTP.Do(r)
	if err != nil {
		return 0, notDelivered("the target could not be reached", withoutURL(err), 0, true)
	}
	defer drain(resp.Body)
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return resp.StatusCode, nil
	case resp.StatusCode == http.StatusGone:
		return resp.StatusCode, notDelivered("the target is gone (410)", nil, 0, false)
	}
	return resp.StatusCode, notDelivered("the target answered "+status(resp), nil, retryAfter(resp, a.o.Now()), true)
}

// newRequest refuses what is no address of a web server, for good and without
// repeating it: whatever it is, it may be secret.
func newRequest(ctx context.Context, method, rawURL string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, rawURL, body)
	if err != nil || (r.URL.Scheme != "http" && r.URL.Scheme != "https") {
		return nil, notURL()
	}
	return r, nil
}

func notURL() error {
	return notDelivered("the target's url or askUrl in the worker's wakepoint.yaml is no http or https URL", nil, 0, false)
}

// status has not the other side's own words: they may repeat what it was sent,
// and they are kept in history.
func status(resp *http.Response) string {
	return strings.TrimSpace(strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode))
}

// sign is the signature of Standard Webhooks, version v1: HMAC-SHA256 over id,
// timestamp and body, joined by dots.
func sign(secret []byte, id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.", id, stamp)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// WebhookSecret reads a secret as Standard Webhooks writes them: base64 after
// the prefix whsec_, or else the bytes as they are.
func WebhookSecret(text string) ([]byte, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "whsec_")
	if !ok {
		return []byte(strings.TrimSpace(text)), nil
	}
	b, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return nil, errors.New("secret: must be base64 after whsec_")
	}
	return b, nil
}

func notDelivered(msg string, cause error, after time.Duration, retry bool) error {
	return temporal.NewApplicationErrorWithOptions(msg, protocol.ErrTypeNotDelivered,
		temporal.ApplicationErrorOptions{NonRetryable: !retry, Cause: cause, NextRetryDelay: after, Category: temporal.ApplicationErrorCategoryBenign})
}

// withoutURL drops the URL of a client error: it may hold a token, and errors
// are kept in history.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retryAfter reads Retry-After (RFC 9110, section 10.2.3): seconds or a date.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	v := resp.Header.Get("Retry-After")
	if v == "" {
		return 0
	}
	d := time.Duration(0)
	if s, err := strconv.Atoi(v); err == nil {
		d = time.Duration(s) * time.Second
	} else if at, err := http.ParseTime(v); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

// maxDrained is how much of an answer is read so that the other side sees its
// connection used to the end.
const maxDrained = 64 << 10

func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxDrained)
	_ = body.Close()
}
