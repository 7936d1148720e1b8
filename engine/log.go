package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// serverLogger writes the server's logs through slog.
//
// The server calls Fatal where it can't go on and relies on it not to return; upstream's loggers end the process there.
// This one hands the message to whoever runs the engine, who removes the ready file, gives the data back and
// ends with an exit code, and parks the goroutine that called.
type serverLogger struct {
	slog  *slog.Logger
	fatal chan<- error
}

var (
	_ log.Logger      = (*serverLogger)(nil)
	_ log.WithLogger  = (*serverLogger)(nil)
	_ log.SLogWrapper = (*serverLogger)(nil)
)

// newServerLogger logs to w what is at or above level. fatal must have room for one error.
func newServerLogger(w io.Writer, level slog.Leveler, asJSON bool, fatal chan<- error) *serverLogger {
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if asJSON {
		handler = slog.NewJSONHandler(w, options)
	}
	return &serverLogger{slog: slog.New(handler), fatal: fatal}
}

// Debug implements log.Logger.
func (l *serverLogger) Debug(msg string, tags ...tag.Tag) { l.log(slog.LevelDebug, msg, tags) }

// Info implements log.Logger.
func (l *serverLogger) Info(msg string, tags ...tag.Tag) { l.log(slog.LevelInfo, msg, tags) }

// Warn implements log.Logger.
func (l *serverLogger) Warn(msg string, tags ...tag.Tag) { l.log(slog.LevelWarn, msg, tags) }

// Error implements log.Logger.
func (l *serverLogger) Error(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// DPanic implements log.Logger; in production, upstream's loggers log it as an error too.
func (l *serverLogger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// Panic implements log.Logger.
func (l *serverLogger) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic(msg)
}

// Fatal implements log.Logger. It does not return.
func (l *serverLogger) Fatal(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	var b strings.Builder
	b.WriteString(msg)
	for _, t := range tags {
		fmt.Fprintf(&b, ", %s: %v", t.Key(), t.Value())
	}
	select {
	case l.fatal <- fmt.Errorf("temporal server: %s", b.String()):
	default: // the first one decides
	}
	select {}
}

// With implements log.WithLogger.
func (l *serverLogger) With(tags ...tag.Tag) log.Logger {
	return &serverLogger{slog: slog.New(l.slog.Handler().WithAttrs(attributes(tags))), fatal: l.fatal}
}

// SLog implements log.SLogWrapper, which the server asks for the logger of its inner SDK clients.
func (l *serverLogger) SLog() *slog.Logger { return l.slog }

func (l *serverLogger) log(level slog.Level, msg string, tags []tag.Tag) {
	ctx := context.Background()
	if l.slog.Enabled(ctx, level) {
		l.slog.LogAttrs(ctx, level, msg, attributes(tags)...)
	}
}

func attributes(tags []tag.Tag) []slog.Attr {
	attrs := make([]slog.Attr, 0, len(tags))
	for _, t := range tags {
		attrs = append(attrs, slog.Any(t.Key(), t.Value()))
	}
	return attrs
}
