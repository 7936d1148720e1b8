package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BrowserEnv names a Chromium in the environment.
const BrowserEnv = "WAKEPOINT_BROWSER"

// BrowserPath looks for a Chromium.
func BrowserPath() (string, bool) {
	for _, name := range []string{os.Getenv(BrowserEnv), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path, true
		}
	}
	return "", false
}

// Browser is a headless Chromium with one page, driven by the DevTools protocol
// over a pipe: JSON messages that end in a zero byte. The few calls that are
// needed are no reason for a library.
type Browser struct {
	t       testing.TB
	in      io.Writer
	session string

	mu      sync.Mutex
	last    int
	waiting map[int]chan devtools
	gone    chan struct{}
}

// devtools is a message of the protocol, either way.
type devtools struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// OpenBrowser starts a browser for the length of a test. The size is of its
// window, in pixels.
func OpenBrowser(ctx context.Context, t testing.TB, path string, width, height int) *Browser {
	t.Helper()
	// Not t.TempDir: the browser's helpers write to it for a moment longer than
	// the browser lives, and that is no failure of the test.
	profile, err := os.MkdirTemp("", "wakepoint-browser-")
	must(t, err)
	toRead, in, err := os.Pipe()
	must(t, err)
	out, toWrite, err := os.Pipe()
	must(t, err)
	// The sandbox needs more than a container gives; only our own engine is visited.
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir="+profile,
		"--remote-debugging-pipe", "about:blank")
	// The protocol's pipe is on the file descriptors 3 and 4.
	cmd.ExtraFiles = []*os.File{toRead, toWrite}
	// A group of its own, to end its helpers with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	must(t, toRead.Close())
	must(t, toWrite.Close())
	b := &Browser{t: t, in: in, waiting: make(map[int]chan devtools), gone: make(chan struct{})}
	go b.listen(out)
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = in.Close()
		_ = out.Close()
		_ = os.RemoveAll(profile)
	})
	var target struct{ TargetID, SessionID string }
	b.call(ctx, "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call(ctx, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	b.call(ctx, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	return b
}

// listen hands answers to those who wait for them. Events are of no interest.
func (b *Browser) listen(out io.Reader) {
	defer close(b.gone)
	for r := bufio.NewReader(out); ; {
		raw, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m devtools
		if json.Unmarshal(bytes.TrimRight(raw, "\x00"), &m) != nil || m.ID == 0 {
			continue
		}
		b.mu.Lock()
		if c, ok := b.waiting[m.ID]; ok {
			c <- m
			delete(b.waiting, m.ID)
		}
		b.mu.Unlock()
	}
}

func (b *Browser) call(ctx context.Context, method string, params, result any) {
	b.t.Helper()
	answer := make(chan devtools, 1)
	b.mu.Lock()
	b.last++
	m := devtools{ID: b.last, SessionID: b.session, Method: method, Params: params}
	b.waiting[m.ID] = answer
	b.mu.Unlock()
	raw, err := json.Marshal(m)
	must(b.t, err)
	_, err = b.in.Write(append(raw, 0))
	must(b.t, err)
	select {
	case got := <-answer:
		if got.Error != nil {
			b.t.Fatalf("browser, %s: %s", method, got.Error.Message)
		}
		if result != nil {
			must(b.t, json.Unmarshal(got.Result, result))
		}
	case <-b.gone:
		b.t.Fatalf("browser, %s: it has ended", method)
	case <-ctx.Done():
		b.t.Fatalf("browser, %s: %v", method, context.Cause(ctx))
	}
}

// Visit opens an address.
func (b *Browser) Visit(ctx context.Context, url string) {
	b.t.Helper()
	b.call(ctx, "Page.navigate", map[string]any{"url": url}, nil)
}

// Eval evaluates JavaScript in the page; what it gives must be JSON.
func (b *Browser) Eval(ctx context.Context, script string, into any) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Text string }
	}
	b.call(ctx, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &got)
	if got.ExceptionDetails != nil {
		b.t.Fatalf("browser: %s in %s", got.ExceptionDetails.Text, script)
	}
	if into != nil {
		must(b.t, json.Unmarshal(got.Result.Value, into))
	}
}

// seen is the text of a page and of its frames.
const seen = `[document, ...[...document.querySelectorAll('iframe')].map(f => f.contentDocument)]
	.map(d => d && d.body ? d.body.innerText : '').join('\n')`

// Text is what a reader of the page sees, with what stands in its frames.
func (b *Browser) Text(ctx context.Context) string {
	b.t.Helper()
	var s string
	b.Eval(ctx, seen, &s)
	return s
}

// See waits until a reader of the page sees all of some texts.
func (b *Browser) See(ctx context.Context, texts ...string) {
	b.t.Helper()
	for {
		page := b.Text(ctx)
		i := slices.IndexFunc(texts, func(want string) bool { return !strings.Contains(page, want) })
		if i < 0 {
			return
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			b.t.Fatalf("browser: nobody sees %q on the page:\n%s", texts[i], page)
		}
	}
}

// Click waits for an element and clicks on it.
func (b *Browser) Click(ctx context.Context, selector string) {
	b.t.Helper()
	script := fmt.Sprintf("(e => { if (e) e.click(); return !!e })(document.querySelector(%q))", selector)
	for clicked := false; ; {
		if b.Eval(ctx, script, &clicked); clicked {
			return
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			b.t.Fatalf("browser: there is nothing like %s to click on:\n%s", selector, b.Text(context.WithoutCancel(ctx)))
		}
	}
}

// again is how long to wait before the next look at a page.
const again = 200 * time.Millisecond

// Picture is the page as PNG.
func (b *Browser) Picture(ctx context.Context) []byte {
	b.t.Helper()
	// What was clicked on last has a frame that a reader would wonder at.
	b.Eval(ctx, "document.activeElement && document.activeElement.blur()", nil)
	var got struct{ Data string }
	b.call(ctx, "Page.captureScreenshot", map[string]any{"format": "png"}, &got)
	png, err := base64.StdEncoding.DecodeString(got.Data)
	if err != nil {
		b.t.Fatal(fmt.Errorf("picture: %w", err))
	}
	return png
}
