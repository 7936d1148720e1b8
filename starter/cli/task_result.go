package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

// resultFlags are those of result.
type resultFlags struct {
	output         string
	offset, length int64
	late, info     bool
}

func (a *app) resultCommand() *cobra.Command {
	var f resultFlags
	cmd := &cobra.Command{
		Use: "result TASK", Short: "write the result of a task that succeeded", Args: exactly("TASK"),
		Long: `Writes the bytes of the result to standard output, or to a file with -o. What is
written has been verified against the hash that the task recorded. With --json or
--info it says what the result is, and does not read it.`,
		RunE: needing([]string{"output", "length"}, a.with(needs{results: true}, func(ctx context.Context, s *session, args []string) error {
			return a.result(ctx, s, args[0], f)
		})),
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.output, "output", "o", "", "file to write to, which is replaced when the result is whole")
	fl.Int64Var(&f.offset, "offset", 0, "first byte")
	fl.Int64Var(&f.length, "length", 0, "how many bytes (default to the end)")
	fl.BoolVar(&f.late, "late", false, "the result that came after the deadline")
	fl.BoolVar(&f.info, "info", false, "only say what it is")
	return cmd
}

func (a *app) result(ctx context.Context, s *session, taskID string, f resultFlags) error {
	switch {
	case f.offset < 0:
		return usage("", "--offset must be >= 0, it is %d", f.offset)
	case f.length < 0:
		return usage("", "--length must be >= 0, it is %d", f.length)
	}
	r, reader, err := s.tasks.Result(ctx, taskID, f.late)
	if err != nil {
		return err
	}
	switch {
	case a.json && f.output == "":
		return a.printJSON(r)
	case f.info:
		term.Fields(a.out, []term.Field{
			{Name: "result", Value: r.Ref}, {Name: "sha256", Value: r.Hash}, {Name: "type", Value: r.ContentType}, {Name: "size", Value: term.Bytes(r.Bytes)},
		})
		return nil
	case f.output == "":
		_, err := copyResult(ctx, a.out, reader, f)
		return err
	}
	return a.resultFile(ctx, r, reader, f)
}

// resultFile writes beside the file and renames, so that a result that breaks off
// half way does not replace a whole one.
func (a *app) resultFile(ctx context.Context, r starter.Result, reader Reader, f resultFlags) (err error) {
	path := f.output
	if !filepath.IsAbs(path) {
		wd, err := a.deps.dir()
		if err != nil {
			return err
		}
		path = filepath.Join(wd, path)
	}
	draft, err := os.CreateTemp(filepath.Dir(path), ".wakepoint-*")
	if err != nil {
		return &failure{code: codeFailure, message: "write " + f.output + ": " + err.Error(), cause: err}
	}
	defer func() {
		if err != nil {
			_ = os.Remove(draft.Name())
		}
	}()
	n, err := copyResult(ctx, draft, reader, f)
	if err = errors.Join(err, draft.Close()); err != nil {
		return err
	}
	// CreateTemp keeps others out; a result is an ordinary file.
	const ordinary = 0o644
	if err := os.Chmod(draft.Name(), ordinary); err != nil {
		return err
	}
	if err := os.Rename(draft.Name(), path); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"file": path, "bytes": n, "resultHash": r.Hash, "contentType": r.ContentType})
	}
	a.say("%s written to %s", term.Bytes(n), f.output)
	return nil
}

// copyResult writes the part that was asked for.
func copyResult(ctx context.Context, w io.Writer, reader Reader, f resultFlags) (int64, error) {
	if f.offset == 0 && f.length == 0 {
		r, err := reader.Open(ctx)
		if err != nil {
			return 0, err
		}
		n, err := io.Copy(w, r)
		return n, errors.Join(err, r.Close())
	}
	const piece = 1 << 20
	var n int64
	for {
		want := int64(piece)
		if f.length > 0 {
			want = min(want, f.length-n)
		}
		data, total, err := reader.Range(ctx, f.offset+n, want)
		if err != nil {
			return n, err
		}
		if _, err := w.Write(data); err != nil {
			return n, fmt.Errorf("write the result: %w", err)
		}
		n += int64(len(data))
		if len(data) == 0 || f.offset+n >= total || f.length > 0 && n >= f.length {
			return n, nil
		}
	}
}
