package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
)

func (a *app) taskCommand() *cobra.Command {
	cmd := group("task", "submit, read and move tasks", "",
		a.submitCommand(), a.listCommand(), a.showCommand(), a.watchCommand(), a.resultCommand(), a.logsCommand(),
		a.cancelCommand(), a.retryCommand(), a.answerCommand(), a.callbackCommand(), a.heartbeatCommand(), a.attachCommand(), a.detachCommand(), a.resolveCommand(),
		a.deliverCommand(), a.deliveryCommand(), a.redeliverCommand())
	a.engineFlags(cmd.PersistentFlags())
	return cmd
}

// person is who acts, for the history: the user of the system, unless told.
func (a *app) person(by string) string {
	if by != "" {
		return by
	}
	for _, name := range []string{"USER", "LOGNAME"} {
		if user := a.env.get(name); user != "" {
			return user
		}
	}
	// In a container nobody has set it, and who decided is history.
	return "uid " + strconv.Itoa(os.Getuid())
}

// duration is a flag such as 30s, 5m, 72h or 3d.
type duration struct{ time.Duration }

func (d *duration) Set(s string) (err error) {
	d.Duration, err = config.ParseDuration(s)
	return err
}

func (d *duration) String() string {
	if d.Duration == 0 {
		return ""
	}
	return config.FormatDuration(d.Duration)
}

func (d *duration) Type() string { return "duration" }

// content reads an argument that is given as it is, as @FILE, or as - for
// standard input. It reads one byte more than may be there, so that what is too
// large is refused for its size.
func (a *app) content(flag, arg string, limit int64) ([]byte, error) {
	var r io.Reader
	switch name, isFile := strings.CutPrefix(arg, "@"); {
	case arg == "-":
		r = a.in
	case isFile:
		wd, err := a.deps.dir()
		if err != nil {
			return nil, err
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(wd, name)
		}
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, usage("name a file that is there, or give the JSON itself", "%s: there is no file %s", flag, name)
		}
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		r = f
	default:
		r = strings.NewReader(arg)
	}
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, usage("", "%s must be at most %d bytes", flag, limit)
	}
	return b, nil
}

// jsonContent is content that must be JSON.
func (a *app) jsonContent(flag, arg string, limit int64) (json.RawMessage, error) {
	b, err := a.content(flag, arg, limit)
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSpace(b)
	if !json.Valid(b) {
		return nil, usage("quote it for the shell: "+flag+` '{"key": "value"}'`, "%s must be JSON", flag)
	}
	return b, nil
}

// taskError reads an error that is given in words or as JSON.
func taskError(flag, text string) (*domain.TaskError, error) {
	e := &domain.TaskError{Message: text}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		if err := json.Unmarshal([]byte(text), e); err != nil {
			return nil, usage("", "%s is no error: %s", flag, strings.TrimPrefix(err.Error(), "json: "))
		}
	}
	return e, nil
}

// printOutcome tells what a request came to. A request that was refused is a
// failure, but for one that had been made before.
func (a *app) printOutcome(taskID string, o domain.Outcome, said string) error {
	return a.printAnswer(taskID, "", o, said)
}

// printAnswer is printOutcome of what is about a question.
func (a *app) printAnswer(taskID, question string, o domain.Outcome, said string) error {
	if !o.Changed && !o.Duplicate && refused(o.Reason) {
		return failf("conflict", "look at the task: wakepoint task show "+taskID, "%s", refusal(o.Reason, question, o.State))
	}
	if a.json {
		return a.printJSON(o)
	}
	state := ""
	if o.State != "" && string(o.State) != said {
		state = "; the task " + starter.Standing(o.State)
	}
	again := ""
	if o.Duplicate {
		again = " (as before)"
	}
	a.say("%s%s%s", said, again, state)
	return nil
}

// refused tells whether a reason without a change says no. The request to cancel
// that was left with the engine has changed nothing yet and is none.
func refused(r domain.Reason) bool { return r != domain.ReasonCancelRequested }
