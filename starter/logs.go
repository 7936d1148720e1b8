package starter

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// LogRequest asks for a log.
type LogRequest struct {
	// Stream is stdout or stderr. Default: stdout.
	Stream string
	// Offset is where to begin, in bytes of what the tool wrote.
	Offset int64
	// Limit is how much is read at most, in bytes. Default: all there is.
	Limit int64
	// Follow goes on until the task has ended and its log has been read to the end.
	Follow bool
}

// LogChunk is a piece of a log.
type LogChunk struct {
	protocol.LogsResult
	// Attempt is the one that wrote it. Offsets count from 0 in each.
	Attempt int `json:"attempt"`
}

const (
	// logPiece is how much is asked for at a time, far below what the engine
	// takes as a result.
	logPiece = 256 << 10
	// logTry bounds one reading, logWait the whole call: the host may be gone.
	logTry  = 5 * time.Second
	logWait = 10 * time.Second
)

// Logs gives the log of a task's current attempt, or of its last one, in pieces as
// it is read by an activity on the host of the job. Errors, as the last element:
// invalid-request, unknown-task, no-logs, no-worker, unavailable.
func (c *Client) Logs(ctx context.Context, taskID string, req LogRequest) iter.Seq2[LogChunk, error] {
	return func(yield func(LogChunk, error) bool) {
		if err := req.check(); err != nil {
			yield(LogChunk{}, err)
			return
		}
		l := logReader{c: c, taskID: taskID, req: req, offset: req.Offset, left: req.Limit}
		for {
			chunk, err := l.read(ctx)
			if err != nil {
				yield(LogChunk{}, err)
				return
			}
			if (len(chunk.Data) > 0 || chunk.Skipped > 0) && !yield(chunk, nil) || l.over {
				return
			}
			if l.wait == 0 {
				continue
			}
			if err := pause(ctx, l.wait); err != nil {
				yield(LogChunk{}, err)
				return
			}
		}
	}
}

func (r *LogRequest) check() error {
	if r.Stream == "" {
		r.Stream = "stdout"
	}
	switch {
	case r.Stream != "stdout" && r.Stream != "stderr":
		return invalidf("stream", "must be stdout or stderr, not %q", oneLine(r.Stream, logNameLimit))
	case r.Offset < 0:
		return invalidf("offset", "must be >= 0, it is %d", r.Offset)
	case r.Limit < 0:
		return invalidf("limit", "must be >= 0, it is %d", r.Limit)
	}
	return nil
}

const logNameLimit = 40

// logReader is where a reader of a log stands.
type logReader struct {
	c      *Client
	taskID string
	req    LogRequest
	// job is the id of the job that offset counts in.
	job     string
	offset  int64
	left    int64
	started bool
	over    bool
	wait    time.Duration
	quiet   time.Duration
}

func (l *logReader) read(ctx context.Context) (LogChunk, error) {
	s, err := l.c.read(ctx, l.taskID)
	if err != nil {
		return LogChunk{}, err
	}
	t, handle := s.desc.Task, s.desc.Handle
	if handle == nil {
		if l.req.Follow && !s.ended() && !t.Policy.External {
			l.rest()
			return LogChunk{}, nil
		}
		l.over = l.started
		if l.over {
			return LogChunk{}, nil
		}
		return LogChunk{}, noJob(t)
	}
	if l.started && handle.ID != l.job {
		// Another attempt writes another log.
		l.offset = 0
	}
	l.job, l.started = handle.ID, true
	chunk, err := l.c.readLog(ctx, protocol.LogsRequest{
		Job: protocol.Job{
			Tenant: l.c.o.Tenant, TaskID: t.ID, Tool: t.Tool, Attempt: t.Attempts, SubmissionKey: l.c.o.Tenant + "/" + t.SubmissionKey(), Handle: handle,
		},
		Stream: l.req.Stream, Offset: l.offset, Limit: l.size(),
	}, l.c.logQueue(t.Tool, handle))
	if err != nil {
		return LogChunk{}, err
	}
	l.advance(chunk, s.ended())
	return LogChunk{LogsResult: chunk, Attempt: t.Attempts}, nil
}

// noJob says why there is no log to read.
func noJob(t domain.Task) error {
	switch {
	case t.Policy.External:
		return fail(CodeNoLogs, "look where it is worked on", "task %s is worked on outside, its log is not kept here", t.ID)
	case t.State.Terminal():
		return fail(CodeNoLogs, "look at the task: wakepoint task show "+t.ID, "task %s %s, and no job of it is known whose log could be read", t.ID, Standing(t.State))
	}
	return fail(CodeNoLogs, "wait for its start: wakepoint task logs --follow "+t.ID, "task %s %s and has not started yet", t.ID, Standing(t.State))
}

func (l *logReader) size() int {
	if l.req.Limit > 0 {
		return int(min(l.left, logPiece))
	}
	return logPiece
}

// advance decides what comes after a piece.
func (l *logReader) advance(chunk protocol.LogsResult, ended bool) {
	moved := chunk.Next > l.offset
	l.offset = chunk.Next
	l.left -= int64(len(chunk.Data))
	switch {
	case l.req.Limit > 0 && l.left <= 0, ended && (chunk.End || !moved):
		l.over = true
	case moved:
		l.wait, l.quiet = 0, 0
	case !l.req.Follow:
		l.over = true
	default:
		l.rest()
	}
}

// rest waits longer the longer nothing was written.
func (l *logReader) rest() {
	const most = 3 * time.Second
	p := Poll{Min: l.c.o.Poll.Min, Max: max(most, l.c.o.Poll.Min)}
	l.wait = jittered(min(max(l.quiet/2, p.Min), p.Max), rand.Float64())
	l.quiet += l.wait
}

// logQueue is where the activity must run: on the job's host when it has one.
func (c *Client) logQueue(tool string, h *protocol.Handle) string {
	if h.TaskQueue != "" {
		return h.TaskQueue
	}
	if t, ok := c.o.Config.Tool(tool); ok {
		return t.TaskQueue
	}
	return c.o.TaskQueue
}

// readLog runs the reading as an activity of its own, without a workflow.
func (c *Client) readLog(ctx context.Context, req protocol.LogsRequest, queue string) (protocol.LogsResult, error) {
	var out protocol.LogsResult
	err := c.alone(ctx, lonely{
		activity: protocol.ActivityLogs, id: "logs", queue: queue, try: logTry, wait: logWait, summary: "log of " + req.TaskID, arg: req,
	}, &out)
	var app *temporal.ApplicationError
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, errNoAnswer):
		return out, fail(CodeNoWorker, "start a worker on the host that runs the job", "no worker read the log of task %s from queue %s", req.TaskID, queue).because(err)
	case errors.As(err, &app) && app.Type() == string(CodeNoLogs), errors.As(err, &app) && app.Type() == protocol.ErrTypeUnknownTool:
		return out, fail(CodeNoLogs, "", "task %s: %s", req.TaskID, app.Message()).because(err)
	case errors.As(err, &app):
		return out, fail(CodeInternal, "read the worker's log", "the log of task %s cannot be read: %s", req.TaskID, app.Message()).because(err)
	}
	return out, engineError(ctx, "read the log of task "+req.TaskID, err)
}
