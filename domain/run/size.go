package run

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/wakepoint/wakepoint/domain"
)

// open is how large what is open in the run is as it is stored: what becomes smaller only
// by further steps.
func (r Run) open() int {
	b, err := json.Marshal(Run{Calls: r.Calls, Inputs: r.Inputs, Detached: r.Detached, Step: r.Step})
	if err != nil {
		// Only broken raw JSON leads here, which every door refuses.
		return MaxOpenBytes + 1
	}
	return len(b)
}

// shortWord is what an input, a decision or an answer may add to a run that is full. There
// are at most 100 of each.
const shortWord = 1 << 10

// checkRoom refuses what the run has no room for. It measures what is there as a whole:
// there are many limits, and escapes make text up to six times as long. What is let in
// at any size makes it smaller, or asks for nothing.
func checkRoom(before, after Run, e Event) error {
	field := ""
	switch e.Type {
	case EventCommit:
		if len(e.Response.ToolCalls) == 0 {
			return nil
		}
		field = "toolCalls"
	case EventInput:
		field = "input.content"
	case EventApprove:
		field = "decision"
	case EventAnswer:
		field = "answer"
	default:
		return nil
	}
	// What is short always finds room: ends may have taken it all, and a person who could
	// decide about nothing any more would have to let the call expire.
	short := 0
	if e.Type != EventCommit {
		short = shortWord
	}
	if n := after.open(); n > MaxOpenBytes && n > before.open()+short {
		return domain.Invalid(field, "must leave at most %d bytes of JSON open in the run: calls, answers, inputs", MaxOpenBytes)
	}
	return nil
}

// keepAnswer keeps what a call's end brings, if there is room for it. An end cannot be
// refused, and a run that is too large to be stored would stand still for ever.
func (r *Run) keepAnswer(c *Call, answer []byte) {
	if len(answer) == 0 {
		return
	}
	c.Answer = answer
	if r.open() <= MaxOpenBytes {
		return
	}
	where := ""
	if c.SubRunID != "" {
		where = "; run " + c.SubRunID + " keeps it"
	}
	c.Answer, c.State, c.ResultBytes = nil, CallFailed, 0
	c.Error = &domain.TaskError{Code: CodeResultTooLarge, Class: domain.ClassUser, Message: "its result finds no room in the run beside what else is open" + where}
}

// kept is an error as it is kept for a call or a step.
func kept(e *domain.TaskError) *domain.TaskError {
	if e == nil {
		return nil
	}
	k := *e
	k.Code, k.Class, k.Severity = cut(k.Code), domain.Class(cut(string(k.Class))), domain.Severity(cut(string(k.Severity)))
	k.Message = cutTo(k.Message, MaxErrorMessage)
	if len(k.Details) > 0 && len(asStored(k.Details)) > MaxErrorDetails {
		k.Details = nil
	}
	return &k
}

// newest drops the oldest of a list of the past until what is left is no larger than
// [MaxPastBytes]. The newest stays.
func newest[T interface{ weight() int }](list []T) []T {
	total := 0
	for i := len(list) - 1; i >= 0; i-- {
		if total += list[i].weight(); total > MaxPastBytes && i < len(list)-1 {
			return list[i+1:]
		}
	}
	return list
}

// The weights are about what is written, and no less: names and numbers of the members,
// and texts with their escapes.

func (e Entry) weight() int { return 200 + escaped(e.By) + escaped(e.Text) + escaped(e.ToolCallID) }

func (s SeenID) weight() int { return 60 + escaped(s.ID) }

func (c Commit) weight() int { return 300 + escaped(c.Token) + escaped(c.Digest) }

func (c Call) weight() int {
	n := 600 + 2*escaped(c.ID)
	for _, s := range []string{c.Tool, c.IdempotencyKey, c.Title, c.TaskID, c.SubRunID, c.WaiterID, c.ResultRef, c.ResultHash, c.ContentType} {
		n += escaped(s)
	}
	if c.Error != nil {
		n += escaped(c.Error.Code) + escaped(c.Error.Message) + escaped(string(c.Error.Class)) + escaped(string(c.Error.Severity))
	}
	if c.Cancel != nil {
		n += 60 + escaped(c.Cancel.By) + escaped(c.Cancel.Reason)
	}
	return n
}

// escaped is the length of a text in JSON, or a little more.
func escaped(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c == '<' || c == '>' || c == '&':
			n += 5
		case c == '"' || c == '\\':
			n++
		case c == 0xE2:
			// Two separators of lines, which are written as escapes, begin so.
			n += 3
		}
	}
	return n
}

// cut bounds text that is kept for people.
func cut(s string) string { return cutTo(s, MaxText) }

// cutTo bounds text to a number of bytes, as it is and as it is stored.
func cutTo(s string, limit int) string {
	for len(s) > limit || escaped(s) > 2*limit {
		n := min(len(s)-1, limit)
		if len(s) <= limit {
			n = len(s) / 2
		}
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return s
}
