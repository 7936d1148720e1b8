package http

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Timeout is that of a declaration with its defaults.
func Timeout(c Config) time.Duration { return c.withDefaults().Timeout }

// ParseRetryAfter, ResolveURL and OriginOf are parsers of what comes from outside.
var (
	ParseRetryAfter = parseRetryAfter
	ResolveURL      = resolve
	OriginOf        = originOf
)

// ParsePointer reads a pointer and looks with it.
func ParsePointer(text string, doc []byte) (string, bool, error) {
	p, err := parsePointer(text)
	if err != nil {
		return "", false, err
	}
	d, err := parseDocument(doc)
	if err != nil {
		return "", false, err
	}
	raw, ok := d.at(p)
	return string(raw), ok, nil
}

// StatusTable prints what becomes of every answer to a POST.
func StatusTable() string {
	var b strings.Builder
	b.WriteString("| Status | Verdict | Code | Class | Retryable | Why |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, r := range statusRules {
		code, retryable := "", ""
		if r.verdict == verdictNotStarted {
			code, retryable = "`"+r.code+"`", "no"
			if r.retryable {
				retryable = "yes"
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", statuses(r.from, r.to), r.verdict, code, r.class, retryable, r.why)
	}
	return b.String()
}

// LookTable prints what becomes of every answer to the other verbs.
func LookTable() string {
	var b strings.Builder
	b.WriteString("| Status | Looking at a job | Finding one | Listing | Cancelling |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range lookRules {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", statuses(r.from, r.to), r.observe, r.find, r.list, r.cancel)
	}
	return b.String()
}

// statuses names a range. One that covers a class, or all, is for what is left of it.
func statuses(from, to int) string {
	switch {
	case from == 100:
		return "any other"
	case from == to:
		return fmt.Sprint(from)
	case to == from+1:
		return fmt.Sprintf("%d, %d", from, to)
	}
	return fmt.Sprintf("other %dxx", from/100)
}

// Throttles says whether a POST and a look are put off by a status.
func Throttles(status int) (post, look bool) {
	r := lookRuleFor(status)
	return ruleFor(status, true).verdict == verdictThrottled,
		r.observe == readThrottled && r.find == readThrottled && r.list == readThrottled && r.cancel == readThrottled
}

// FillURL puts a value into a template.
func FillURL(template, placeholder, value string) (*url.URL, error) {
	return fill(template, placeholder, value)
}

// ReadJSON reads a body as each thing that it may be, and says what is not in order with it.
func ReadJSON(body []byte) string {
	c := Config{}.withDefaults()
	r, err := newReader(c.Fields, c.States)
	if err != nil {
		return err.Error()
	}
	jobs, _, listErr := r.parseList(body)
	j, err := r.parseJob(body)
	if err == nil {
		jobs = append(jobs, j)
	}
	_ = listErr
	for _, j := range jobs {
		switch {
		case j.progress != nil && (*j.progress < 0 || *j.progress > 100):
			return fmt.Sprintf("progress %d", *j.progress)
		case len(j.stage) > maxStage || len(j.word) > maxWord:
			return "a long text"
		case j.startedAt < 0 || j.endedAt < 0:
			return "a negative time"
		}
		if j.failure == nil {
			continue
		}
		f := parseFailure(j.failure, *failure(CodeJobFailed, "m", "third-party", true), func(s string) string { return strings.ReplaceAll(s, "7", "[redacted]") })
		switch {
		case f.Code == "" || strings.Trim(f.Code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || f.Code[0] <= '9' || f.Code[0] == '_':
			return fmt.Sprintf("code %q", f.Code)
		case f.Message == "" || len(f.Message) > maxMessage || len(f.Details) > maxDetails:
			return "a message or details of a wrong size"
		case f.RetryAfterMs < 0 || f.RetryAfterMs > maxRetryAfter.Milliseconds():
			return fmt.Sprintf("retryAfterMs %d", f.RetryAfterMs)
		}
	}
	return ""
}
