package agent

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wakepoint/wakepoint/domain/run"
)

// HandlerOptions is how a runtime of mode push answers.
type HandlerOptions struct {
	// Secrets verify the signature of Standard Webhooks; any of them may have signed, so
	// that they can be changed. [Secret] reads one. An empty one has signed nothing:
	// everybody knows it. Default: none, and requests are not verified: only for a
	// network that nobody else is in.
	Secrets [][]byte
	// Tolerance is how old a request may be. Default: 5 minutes.
	Tolerance time.Duration
	// Commits takes the answers of steps that last longer than Within: they are answered
	// with 202 and committed later. Default: none, every step is waited for.
	Commits Steps
	// Within is how long a request is waited for. Default: 30 s.
	Within time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger takes what goes wrong after a 202. Default: slog.Default.
	Logger *slog.Logger
}

// Secret reads a secret as Standard Webhooks writes them, and as the worker reads the one
// that wakepoint.yaml names: base64 after the prefix whsec_, or else the bytes as they are,
// without surrounding white space. An empty one, such as a variable that isn't set, is
// an error.
func Secret(text string) ([]byte, error) {
	text = strings.TrimSpace(text)
	secret := []byte(text)
	if rest, ok := strings.CutPrefix(text, "whsec_"); ok {
		var err error
		if secret, err = base64.StdEncoding.DecodeString(rest); err != nil {
			return nil, errors.New("secret: must be base64 after whsec_")
		}
	}
	if len(secret) == 0 {
		return nil, errors.New("secret: must not be empty")
	}
	return secret, nil
}

// maxStep bounds a request: a checkpoint as large as it may be, and what stands beside.
const maxStep = run.MaxCheckpoint + 4<<20

// Handler is the runtime as an HTTP handler for the URL that wakepoint.yaml declares.
// 401 answers a signature that does not fit, 400 what is no step.
func Handler(f Func, o HandlerOptions) http.Handler {
	if o.Tolerance == 0 {
		o.Tolerance = 5 * time.Minute
	}
	if o.Within == 0 {
		o.Within = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &handler{f: f, o: o}
}

type handler struct {
	f Func
	o HandlerOptions
}

// ServeHTTP takes one step.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a step is sent by POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxStep))
	if err != nil {
		http.Error(w, "the step is too large or broke off", http.StatusRequestEntityTooLarge)
		return
	}
	if err := h.verify(r.Header, body); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var req run.StepRequest
	if err := json.Unmarshal(body, &req); err != nil || req.StepToken == "" {
		http.Error(w, "the body is no step", http.StatusBadRequest)
		return
	}
	h.serve(w, r, req)
}

// serve answers in time: with the step's answer, or that it will be committed later.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, req run.StepRequest) {
	ctx := r.Context()
	if h.o.Commits == nil {
		write(w, answer(ctx, h.f, req))
		return
	}
	later := &later{answered: make(chan run.StepResponse, 1)}
	go h.work(context.WithoutCancel(ctx), later, req)
	timer := time.NewTimer(h.o.Within)
	defer timer.Stop()
	select {
	case resp := <-later.answered:
		write(w, resp)
	case <-timer.C:
		if later.postpone() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		write(w, <-later.answered)
	}
}

// later is a step that may be answered in time or be committed later, not both.
type later struct {
	mu        sync.Mutex
	postponed bool
	done      bool
	answered  chan run.StepResponse
}

// postpone says that the request is answered with 202; false means that the step has
// ended meanwhile.
func (l *later) postpone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.postponed = !l.done
	return l.postponed
}

// deliver gives the answer to the request; false means that it has to be committed.
func (l *later) deliver(resp run.StepResponse) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.postponed {
		return false
	}
	l.done = true
	l.answered <- resp
	return true
}

func (h *handler) work(ctx context.Context, l *later, req run.StepRequest) {
	hs := &hints{}
	lease := time.Duration(req.LeaseMs) * time.Millisecond
	work, stop := beating(context.WithValue(ctx, hintsKey{}, hs), pulse(lease), func(ctx context.Context) bool {
		l.mu.Lock()
		postponed := l.postponed
		l.mu.Unlock()
		if !postponed {
			return false
		}
		_, err := h.o.Commits.StepHeartbeat(ctx, req.RunID, req.StepToken, hs.take())
		return err != nil && !passing(err)
	})
	defer stop()
	resp := answer(work, h.f, req)
	if l.deliver(resp) {
		return
	}
	if err := commit(ctx, h.o.Commits, req.RunID, req, resp, PullOptions{Logger: h.o.Logger}); err != nil {
		h.o.Logger.Warn("a step was not committed", "run", req.RunID, "step", req.Step, "error", err)
	}
}

func write(w http.ResponseWriter, resp run.StepResponse) {
	b, err := run.EncodeResponse(resp)
	if err != nil {
		b, err = run.EncodeResponse(run.StepResponse{Error: problem(err)})
	}
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

// verify checks the signature of Standard Webhooks over id, timestamp and body.
func (h *handler) verify(header http.Header, body []byte) error {
	if len(h.o.Secrets) == 0 {
		return nil
	}
	id, stamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" {
		return errors.New("the request is not signed")
	}
	if age := h.o.Now().Sub(time.Unix(seconds, 0)); age > h.o.Tolerance || age < -h.o.Tolerance {
		return errors.New("the request is too old, or from the future")
	}
	for _, signature := range strings.Fields(header.Get("Webhook-Signature")) {
		text, ok := strings.CutPrefix(signature, "v1,")
		given, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil {
			continue
		}
		for _, secret := range h.o.Secrets {
			if len(secret) == 0 {
				continue
			}
			mac := hmac.New(sha256.New, secret)
			fmt.Fprintf(mac, "%s.%s.", id, stamp)
			mac.Write(body)
			if hmac.Equal(given, mac.Sum(nil)) {
				return nil
			}
		}
	}
	return errors.New("the signature does not fit")
}
