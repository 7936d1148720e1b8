package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wakepoint/wakepoint/activities/tool"
)

const (
	// dialTimeout and handshakeTimeout bound how long a connection may take to be made, so that a
	// service which is away is told from one that is slow to answer.
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// maxRetryAfter bounds how long a service can put us off.
	maxRetryAfter = 6 * time.Hour
	// maxDrained is how much of an answer is read that nobody wants, so that the connection can be
	// used again.
	maxDrained = 64 << 10
)

// newClient makes a client without the environment's proxy, since a variable of the worker would
// then redirect inputs and secrets.
func newClient(keepAlive bool) *nethttp.Client {
	return &nethttp.Client{Transport: &nethttp.Transport{
		Proxy:                  nil,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      !keepAlive,
	}}
}

// withoutRedirects is a copy that gives a redirect as the answer that it is.
func withoutRedirects(c *nethttp.Client) *nethttp.Client {
	own := *c
	own.CheckRedirect = func(*nethttp.Request, []*nethttp.Request) error { return nethttp.ErrUseLastResponse }
	return &own
}

// answer is what the service said. Its body is bounded by the time for the request, which runs
// until close.
type answer struct {
	*nethttp.Response
	at     time.Time
	cancel context.CancelFunc
}

func (a *answer) close() {
	_, _ = io.CopyN(io.Discard, a.Body, maxDrained)
	_ = a.Body.Close()
	a.cancel()
}

// status has not the other side's own words.
func (a *answer) status() string {
	return strings.TrimSpace(strconv.Itoa(a.StatusCode) + " " + nethttp.StatusText(a.StatusCode))
}

// retryAfter is how long the service wants to be left alone; 0 is not said.
func (a *answer) retryAfter() time.Duration {
	now := a.at
	// The service means its date by its own clock.
	if date, err := nethttp.ParseTime(a.Header.Get("Date")); err == nil {
		now = date
	}
	return parseRetryAfter(a.Header.Get("Retry-After"), now)
}

// parseRetryAfter reads Retry-After (RFC 9110, section 10.2.3): seconds or a date. What is neither,
// or over, is 0; no answer is more than six hours.
func parseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.Trim(value, " \t")
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) { // more than 64 bits hold
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := nethttp.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// send makes one request. An error is a [*tool.ThrottledError] when surely nothing of the request
// was written, because there was no connection to write it to. No error holds the URL or a header.
func (e *Executor) send(ctx context.Context, method string, u *url.URL, header nethttp.Header, body []byte) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	var asked, got atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
	})
	req, err := nethttp.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		cancel()
		return nil, errors.New("the request could not be made") // the cause repeats the URL
	}
	client := e.look
	if body != nil {
		// Without GetBody no transport of Go repeats the request. With it, it repeats one that has
		// an Idempotency-Key on a connection that broke, whether or not the service means it.
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		client = e.submit
	}
	req.Header.Set("Accept", "application/json, */*;q=0.5")
	req.Header.Set("User-Agent", "wakepoint")
	for i, h := range e.cfg.Headers {
		if i == 0 || !hasHeader(e.cfg.Headers[:i], h.Name) {
			req.Header.Del(h.Name)
		}
		req.Header.Add(h.Name, h.Value)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := client.Do(req)
	if err == nil {
		return &answer{Response: resp, at: time.Now(), cancel: cancel}, nil
	}
	timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded)
	cancel()
	err = e.hide(withoutURL(err))
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial", asked.Load() && !got.Load():
		return nil, &tool.ThrottledError{Cause: fmt.Errorf("no connection could be made: %w", err)}
	case timedOut:
		return nil, fmt.Errorf("no answer within %v: %w", e.cfg.Timeout, err)
	}
	return nil, err
}

func hasHeader(headers []Header, name string) bool {
	for _, h := range headers {
		if strings.EqualFold(h.Name, name) {
			return true
		}
	}
	return false
}

// withoutURL drops the URL of a client error: it may hold a token, and errors are kept in history.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// hide makes sure that an error of somebody else's code repeats no secret; a cause that does is
// dropped for its text.
func (e *Executor) hide(err error) error {
	if s := err.Error(); e.redact(s) != s {
		return errors.New(e.redact(s))
	}
	return err
}

// redact takes the values of the declared headers out of a text from outside: a service may repeat
// what it was sent.
func (e *Executor) redact(s string) string { return e.secrets.Replace(s) }

// newRedactor finds each value as a whole and without the scheme before it ("Bearer x"). Short ones
// are left: they are no secrets, and would cut words out of texts.
func newRedactor(headers []Header) *strings.Replacer {
	const shortest = 6
	var pairs []string
	for _, h := range headers {
		switch nethttp.CanonicalHeaderKey(h.Name) {
		case "Accept", "Accept-Language", "User-Agent", "Prefer":
			continue
		}
		value := strings.TrimSpace(h.Value)
		for i, s := range append([]string{value}, strings.Fields(value)...) {
			if i != 1 && len(s) >= shortest { // the first word alone is a scheme
				pairs = append(pairs, s, "[redacted]")
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

// The ways in which a body cannot be used.
var (
	errTooLarge = errors.New("the answer is too large")
	errEncoded  = errors.New("the answer has a content encoding that was not asked for")
)

// body gives what may be read of an answer: a byte more than limit is errTooLarge, and a body that
// ends before its length is an error of its own (RFC 9112, section 8).
func (a *answer) body(limit int64) (io.Reader, error) {
	if enc := a.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, errEncoded
	}
	return &boundedReader{r: a.Body, left: limit}, nil
}

// read reads a whole body of at most limit bytes.
func (a *answer) read(limit int64) ([]byte, error) {
	r, err := a.body(limit)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

type boundedReader struct {
	r    io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return n + int(b.left), errTooLarge
	}
	return n, err
}
