package outside_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
	"github.com/wakepoint/wakepoint/store"
)

// crossed is an error as the other side of the server reads it.
func crossed(t *testing.T, err error) error {
	t.Helper()
	c := temporal.GetDefaultFailureConverter()
	return c.FailureToError(c.ErrorToFailure(err))
}

func TestFailures(t *testing.T) {
	t.Parallel()
	typed := tool.Failure{Code: "CARD_EXPIRED", Message: "it has", Severity: tool.SeverityCritical, Class: tool.ClassUser, Details: json.RawMessage(`{"y":1999}`)}
	for _, tc := range []struct {
		name string
		err  error
		want tool.Failure
	}{
		{"nothing", nil, tool.Failure{Code: "X_FAILED", Message: "it failed and did not say why", Retryable: true}},
		{"plain", errors.New("disk full"), tool.Failure{Code: "X_FAILED", Message: "disk full", Retryable: true}},
		{"wrapped", fmt.Errorf("copy: %w", errors.New("disk full")), tool.Failure{Code: "X_FAILED", Message: "copy: disk full", Retryable: true}},
		{"typed", temporal.NewApplicationError("no money", "PaymentDeclined"), tool.Failure{Code: "PAYMENT_DECLINED", Message: "no money", Retryable: true}},
		{"for good", temporal.NewNonRetryableApplicationError("no money", "PaymentDeclined", nil), tool.Failure{Code: "PAYMENT_DECLINED", Message: "no money"}},
		{
			"object", temporal.NewApplicationErrorWithOptions("m", "T", temporal.ApplicationErrorOptions{Details: []any{map[string]int{"n": 1}}, NextRetryDelay: time.Second}),
			tool.Failure{Code: "T", Message: "m", Retryable: true, Details: json.RawMessage(`{"n":1}`), RetryAfterMs: 1000},
		},
		{
			"list", temporal.NewApplicationErrorWithOptions("m", "T", temporal.ApplicationErrorOptions{Details: []any{[]int{1}, 2}}),
			tool.Failure{Code: "T", Message: "m", Retryable: true, Details: json.RawMessage(`{"details":[1]}`)},
		},
		{
			"bytes", temporal.NewApplicationErrorWithOptions("m", "T", temporal.ApplicationErrorOptions{Details: []any{[]byte{0, 1}}}),
			tool.Failure{Code: "T", Message: "m", Retryable: true},
		},
		{
			"too much", temporal.NewApplicationErrorWithOptions("m", "T", temporal.ApplicationErrorOptions{Details: []any{strings.Repeat("x", 17<<10)}}),
			tool.Failure{Code: "T", Message: "m", Retryable: true},
		},
		{
			"ours", temporal.NewApplicationErrorWithOptions("it has", outside.TypeFailure, temporal.ApplicationErrorOptions{Details: []any{typed}, NonRetryable: true}),
			typed,
		},
		{"time-out", temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil), tool.Failure{Code: "TIMEOUT", Message: "Test timeout (type: StartToClose)", Retryable: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := tc.err
			if err != nil {
				err = crossed(t, err)
			}
			want := tc.want
			if tc.name != "ours" {
				want.Severity, want.Class = tool.SeverityError, tool.ClassThirdParty
			}
			if diff := cmp.Diff(&want, outside.Failure(err, "X_FAILED")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCodes(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string]string{
		"":                             "FALLBACK",
		"Error":                        "FALLBACK",
		"errorString":                  "FALLBACK",
		"PaymentDeclined":              "PAYMENT_DECLINED",
		"payment-declined":             "PAYMENT_DECLINED",
		"PAYMENT_DECLINED":             "PAYMENT_DECLINED",
		"HTTPError":                    "HTTP_ERROR",
		"java.lang.IllegalState":       "JAVA_LANG_ILLEGAL_STATE",
		"Oauth2Failed":                 "OAUTH2_FAILED",
		"  spaces  ":                   "SPACES",
		"Zürich":                       "Z_RICH",
		"漢字":                           "FALLBACK",
		strings.Repeat("a", 70):        strings.Repeat("A", 64),
		strings.Repeat("a", 63) + "Bc": strings.Repeat("A", 63),
	} {
		if got := outside.Failure(temporal.NewApplicationError("m", typ), "FALLBACK").Code; got != want {
			t.Errorf("code of %q is %s, want %s", typ, got, want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string]bool{"WorkerShutdown": true, outside.TypeWorkerStopped: true, "Shutdown": false} {
		if got := outside.Interrupted(crossed(t, temporal.NewApplicationError("m", typ))); got != want {
			t.Errorf("%s: %v", typ, got)
		}
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err      error
		definite bool
	}{
		{serviceerror.NewInvalidArgument("bad queue"), true},
		{serviceerror.NewNamespaceNotFound("n"), true},
		{serviceerror.NewPermissionDenied("no", ""), true},
		{serviceerror.NewUnavailable("later"), false},
		{serviceerror.NewDeadlineExceeded("late"), false},
		{serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "busy"), false},
		{serviceerror.NewInternal("oops"), false},
		{context.DeadlineExceeded, false},
		{errors.New("connection reset"), false},
	} {
		got := outside.StartError("acme/t/1", tc.err)
		f, definite := tool.DefiniteFailure(got)
		if definite != tc.definite || definite && f.Code != outside.CodeRefused || errors.Is(got, tool.ErrAmbiguous) == definite || !errors.Is(got, tc.err) {
			t.Errorf("%v gives %v", tc.err, got)
		}
	}
}

func payload(encoding, data string) *commonpb.Payload {
	return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: []byte(data)}
}

func TestResults(t *testing.T) {
	t.Parallel()
	st, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	large := `"` + strings.Repeat("x", 64<<10) + `"`
	for _, tc := range []struct {
		name        string
		in          *commonpb.Payload
		inline      string
		stored      string
		contentType string
	}{
		{"none", nil, "null", "", "application/json"},
		{"nil", payload(converter.MetadataEncodingNil, ""), "null", "", "application/json"},
		{"json", payload(converter.MetadataEncodingJSON, `{"a":1}`), `{"a":1}`, "", "application/json"},
		{"proto", payload(converter.MetadataEncodingProtoJSON, `{"a":1}`), `{"a":1}`, "", "application/json"},
		{"large", payload(converter.MetadataEncodingJSON, large), "", large, "application/json"},
		{"no json", payload(converter.MetadataEncodingJSON, `{`), "", `{`, "application/octet-stream"},
		{"bytes", payload(converter.MetadataEncodingBinary, "\x00\x01"), "", "\x00\x01", "application/octet-stream"},
		{"secret", payload("binary/encrypted", "\x02"), "", "\x02", "binary/encrypted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := outside.Result(t.Context(), st, store.Key{Tenant: "acme", TaskID: "t"}, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Inline) != tc.inline || r.ContentType != tc.contentType {
				t.Errorf("got %s of %s", r.Inline, r.ContentType)
			}
			if tc.stored == "" {
				return
			}
			if b, err := st.Get(t.Context(), r.Ref, r.Hash); err != nil || string(b) != tc.stored || r.Bytes != int64(len(tc.stored)) {
				t.Errorf("stored %q (%d): %v", b, r.Bytes, err)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"progress":40,"stage":" linking "}`: "40 linking",
		`{"progress":99.9}`:                   "99 ",
		`{"stage":"x"}`:                       "- x",
		`{"progress":101,"stage":"x"}`:        "- x",
		`{"progress":-1}`:                     "- ",
		`{"progress":"half"}`:                 "- ",
		`40`:                                  "- ",
		`[1]`:                                 "- ",
		``:                                    "- ",
	} {
		got := outside.ReadProgress(payload(converter.MetadataEncodingJSON, data))
		percent := "-"
		if got.Percent != nil {
			percent = fmt.Sprint(*got.Percent)
		}
		if s := percent + " " + got.Stage; s != want {
			t.Errorf("%s tells %q, want %q", data, s, want)
		}
	}
	if got := outside.ReadProgress(nil); got.Percent != nil || got.Stage != "" {
		t.Errorf("nothing tells %+v", got)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{"plain": `'plain'`, `it's`: `'it\'s'`, `a\`: `'a\\'`} {
		if got := outside.Quote(s); got != want {
			t.Errorf("%s is quoted as %s, want %s", s, got, want)
		}
	}
}
