package http

import (
	nethttp "net/http"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// verdict is what an answer to a POST says about the job.
type verdict string

const (
	// verdictDone: the work is done, and the body is its result.
	verdictDone verdict = "done"
	// verdictAccepted: there is a job, to be looked at.
	verdictAccepted verdict = "accepted"
	// verdictNotStarted: surely nothing was started, and nothing will be.
	verdictNotStarted verdict = "not started"
	// verdictThrottled: surely nothing was started yet; the same again later.
	verdictThrottled verdict = "throttled"
	// verdictAmbiguous: it may have been started.
	verdictAmbiguous verdict = "ambiguous"
)

// statusRule is what a range of status codes comes to. The code, class and retryable are those of
// the failure of verdictNotStarted; why is for the reader.
type statusRule struct {
	from, to  int
	verdict   verdict
	code      string
	class     string
	retryable bool
	why       string
}

// statusRules are all of them: the first one that fits decides. docs/http.md has them printed.
var statusRules = []statusRule{
	{200, 201, verdictDone, "", "", false, "the body is the result; it is a job when it looks like one and there is a place to look at it"},
	{202, 202, verdictAccepted, "", "", false, "the work goes on elsewhere (RFC 9110, 15.3.3)"},
	{204, 205, verdictDone, "", "", false, "done, with nothing to say: the result is null"},
	{203, 299, verdictAmbiguous, "", "", false, "done, perhaps, but the body is not the service's whole answer"},
	{301, 301, verdictNotStarted, CodeMisdeclared, tool.ClassSystem, false, "the service lives elsewhere; a POST follows nothing, declare the new URL"},
	{307, 308, verdictNotStarted, CodeMisdeclared, tool.ClassSystem, false, "as 301"},
	{300, 399, verdictAmbiguous, "", "", false, "many services answer a POST that was acted on with 302 or 303"},
	{400, 400, verdictNotStarted, CodeInvalidInput, tool.ClassUser, false, "the service does not understand the input; it will not do so later"},
	{401, 401, verdictNotStarted, CodeUnauthorized, tool.ClassSystem, false, "our credentials are wrong; a person has to look"},
	{403, 403, verdictNotStarted, CodeUnauthorized, tool.ClassSystem, false, "our credentials are not enough; as 401"},
	{404, 404, verdictNotStarted, CodeMisdeclared, tool.ClassSystem, true, "a wrong URL, or a gap while the service is deployed, which heals by itself"},
	{405, 405, verdictNotStarted, CodeMisdeclared, tool.ClassSystem, false, "the URL takes no POST"},
	{407, 407, verdictNotStarted, CodeUnauthorized, tool.ClassSystem, false, "as 401, said by a proxy"},
	{408, 408, verdictAmbiguous, "", "", false, "the service gave up waiting for the request; some say it after acting"},
	{409, 409, verdictAmbiguous, "", "", false, "the key is at work, or was used; for a service without keys see below"},
	{410, 410, verdictNotStarted, CodeMisdeclared, tool.ClassSystem, false, "the service was there and is no more"},
	{413, 413, verdictNotStarted, CodeInvalidInput, tool.ClassUser, false, "the input is too large"},
	{415, 415, verdictNotStarted, CodeMisdeclared, tool.ClassSystem, false, "the service takes no JSON"},
	{422, 422, verdictNotStarted, CodeInvalidInput, tool.ClassUser, false, "the input breaks a rule of the service, or the key was used with another input"},
	{423, 424, verdictNotStarted, CodeRefused, tool.ClassThirdParty, true, "something is locked or missing there now (RFC 4918, 11.3 and 11.4)"},
	{425, 425, verdictThrottled, "", "", false, "too early (RFC 8470, 5.2): it was not looked at"},
	{429, 429, verdictThrottled, "", "", false, "too many requests (RFC 6585, 4): it was not looked at"},
	{400, 499, verdictNotStarted, CodeRefused, tool.ClassThirdParty, false, "a mistake of ours in the eyes of the service (RFC 9110, 15.5), which it did not act on"},
	{503, 503, verdictThrottled, "", "", false, "not able to handle the request now (RFC 9110, 15.6.4), so it did not act on it"},
	{500, 599, verdictAmbiguous, "", "", false, "something broke, before acting or after"},
	{100, 999, verdictAmbiguous, "", "", false, "no status code that we know"},
}

// conflictRule is the rule for 409 from a service that knows nothing of keys: the conflict is then
// not about the key.
var conflictRule = statusRule{409, 409, verdictNotStarted, CodeRefused, tool.ClassThirdParty, false, "the state of things there forbids it; not about the key, which this service does not know"}

// ruleFor finds the rule. knowsKeys says that the service is declared to know keys.
func ruleFor(status int, knowsKeys bool) statusRule {
	if status == conflictRule.from && !knowsKeys {
		return conflictRule
	}
	for _, r := range statusRules {
		if status >= r.from && status <= r.to {
			return r
		}
	}
	return statusRule{from: status, to: status, verdict: verdictAmbiguous}
}

// reading is what an answer to a verb that starts nothing comes to.
type reading string

const (
	// readBody: the body tells.
	readBody reading = "the body tells"
	// readGoing: the job goes on; a body may tell more.
	readGoing reading = "the job goes on, the body may tell more"
	// readFine: what was asked for is done or need not be done.
	readFine reading = "fine"
	// readNone: there is no such job.
	readNone reading = "no job"
	// readUnknown: the service does not know the job.
	readUnknown reading = "`unknown`"
	// readGone: the job was there, and is over and forgotten.
	readGone reading = "`lost`"
	// readThere: there was a job of this key; looking at it tells that it is lost.
	readThere reading = "a job, which is `lost`"
	// readThrottled: the same again later.
	readThrottled reading = "throttled"
	// readError: it could not be asked, which says nothing about the job.
	readError reading = "an error"
)

// lookRule is what a range of status codes comes to for each verb.
type lookRule struct {
	from, to                    int
	observe, find, list, cancel reading
}

// lookRules are all of them; the first one that fits decides. docs/http.md has them printed.
var lookRules = []lookRule{
	{200, 200, readBody, readBody, readBody, readFine},
	{202, 202, readGoing, readBody, readError, readFine},
	{203, 203, readBody, readBody, readBody, readFine},
	{204, 204, readError, readNone, readNone, readFine},
	{200, 299, readError, readError, readError, readFine},
	{404, 404, readUnknown, readNone, readError, readFine},
	{409, 409, readError, readError, readError, readFine},
	{410, 410, readGone, readThere, readError, readFine},
	{425, 425, readThrottled, readThrottled, readThrottled, readThrottled},
	{429, 429, readThrottled, readThrottled, readThrottled, readThrottled},
	{503, 503, readThrottled, readThrottled, readThrottled, readThrottled},
	{100, 999, readError, readError, readError, readError},
}

func lookRuleFor(status int) lookRule {
	for _, r := range lookRules {
		if status >= r.from && status <= r.to {
			return r
		}
	}
	return lookRules[len(lookRules)-1]
}

// knowsKeys says that the service is declared to do something with keys.
func (c Config) knowsKeys() bool { return c.Idempotent || c.FindURL != "" }

// isRedirect names an answer that a person has to hear about.
func isRedirect(status int) bool {
	return status >= nethttp.StatusMultipleChoices && status < nethttp.StatusBadRequest && status != nethttp.StatusNotModified
}
