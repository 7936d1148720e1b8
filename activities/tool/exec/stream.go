package exec

import (
	"os"
	"sync"
	"time"
)

// streamReader reads one of the tool's pipes to its end.
type streamReader struct {
	pipe   *os.File
	log    *logWriter
	filter *controlFilter // nil: everything is output
	done   chan struct{}
}

func newStreamReader(pipe *os.File, log *logWriter) *streamReader {
	return &streamReader{pipe: pipe, log: log, done: make(chan struct{})}
}

func (r *streamReader) read() {
	defer close(r.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := r.pipe.Read(buf)
		if r.filter != nil {
			r.filter.write(buf[:n])
		} else {
			r.log.write(buf[:n])
		}
		if err != nil {
			break // the end, or the drain deadline
		}
	}
	if r.filter != nil {
		r.filter.end()
	}
}

// drain waits for the end of the pipe, at most so long.
func (r *streamReader) drain(limit time.Duration) {
	_ = r.pipe.SetReadDeadline(time.Now().Add(limit))
	<-r.done
	_ = r.pipe.Close()
}

// progressEvery is the least time between two writings of the progress: it is read by people and
// polls, a few times a second at most.
const progressEvery = 200 * time.Millisecond

// progressWriter keeps the newest progress, and writes it down in measure.
type progressWriter struct {
	path string

	mu      sync.Mutex
	now     progress
	dirty   bool
	written time.Time
}

func newProgressWriter(path string) *progressWriter {
	return &progressWriter{path: path, now: progress{Version: layoutVersion}}
}

// set takes in a control line. Progress only goes up within a run.
func (w *progressWriter) set(c control) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Progress != nil && (w.now.Progress == nil || *c.Progress > *w.now.Progress) {
		w.now.Progress, w.dirty = c.Progress, true
	}
	if c.Stage != nil && *c.Stage != w.now.Stage {
		w.now.Stage, w.dirty = *c.Stage, true
	}
	if w.dirty {
		w.now.AtMs = time.Now().UnixMilli()
	}
	w.writeWhenDue(progressEvery)
}

func (w *progressWriter) flushWhenDue() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeWhenDue(progressEvery)
}

func (w *progressWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeWhenDue(0)
}

func (w *progressWriter) writeWhenDue(every time.Duration) {
	if !w.dirty || time.Since(w.written) < every {
		return
	}
	w.written = time.Now()
	// A hint: what can't be written now is tried again with the next.
	w.dirty = writeJSON(w.path, w.now, false) != nil
}
