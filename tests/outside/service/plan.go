package service

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Fault is a way to misbehave.
type Fault string

// What can happen to a POST.
const (
	// DropBefore: the connection breaks before anything was done.
	DropBefore Fault = "drop-before"
	// DropAfter: the job is started, and the connection breaks before the answer.
	DropAfter Fault = "drop-after"
	// HangBefore: no answer for a long time; nobody acts if find has said no meanwhile.
	HangBefore Fault = "hang-before"
	// HangAfter: the job is started, and the answer does not come.
	HangAfter Fault = "hang-after"
	// Throttle: 429 with Retry-After, nothing done.
	Throttle Fault = "throttle"
	// Unavailable: 503 with Retry-After, nothing done.
	Unavailable Fault = "unavailable"
	// BadGateway: the job is started, and a proxy says 502.
	BadGateway Fault = "bad-gateway"
	// TwoAnswers: the answer is sent twice over the connection.
	TwoAnswers Fault = "two-answers"
	// ProxyRetry: a proxy sends the request twice and answers with the second answer. Only for a
	// service that acts once for a key: otherwise the second job would be the proxy's doing.
	ProxyRetry Fault = "proxy-retry"
	// Refuse: 423, surely nothing done, worth another attempt.
	Refuse Fault = "refuse"
)

// What can happen to a look.
const (
	// LookThrottle: 429 with Retry-After.
	LookThrottle Fault = "look-throttle"
	// LookDrop: the connection breaks.
	LookDrop Fault = "look-drop"
	// LookError: 500.
	LookError Fault = "look-error"
	// LookHang: no answer for a long time.
	LookHang Fault = "look-hang"
	// MindChange: running, after it was said to have succeeded, by a look or by a callback.
	MindChange Fault = "mind-change"
	// Forget: the job is not known any more.
	Forget Fault = "forget"
)

// What can happen to callbacks.
const (
	// CallbackEarly: the end is told before the POST is answered.
	CallbackEarly Fault = "callback-early"
	// CallbackLate: the end is told long after it was there to be seen.
	CallbackLate Fault = "callback-late"
	// CallbackTwice: the end is told twice under one id, and once more under another.
	CallbackTwice Fault = "callback-twice"
	// CallbackDisorder: the end is told first, and then how the job is getting on.
	CallbackDisorder Fault = "callback-disorder"
	// CallbackPlain: the end is told once, when it comes.
	CallbackPlain Fault = "callback-plain"
	// CallbackNone: no callback comes.
	CallbackNone Fault = ""
)

// Submission is what a plan is made for.
type Submission struct {
	Mode    Mode
	Key     string
	Tenant  string
	Task    string
	Attempt int
}

// Plan says how the jobs of a key behave, and the service about them.
type Plan struct {
	// Told jobs run until [Server.Succeed] or [Server.Fail]; others for Lasts.
	Told  bool
	Lasts time.Duration
	// Fails: the job ends without success.
	Fails bool
	// Stubborn: the job takes no notice of a DELETE.
	Stubborn bool
	// Posts are what happens to the first POST of the key, to the second, and so on. After them
	// there is no fault.
	Posts []Fault
	// Looks are what happens to the first look at a job, to the second, and so on.
	Looks []Fault
	// MindChanges: once a look or a callback has told its success, every second look says running.
	MindChanges bool
	// Forgets: it forgets the job so long after its end; 0 never.
	Forgets time.Duration
	// Callback is how callbacks are sent.
	Callback Fault
	// CallbackDelay is how long a late one takes.
	CallbackDelay time.Duration
}

// Mix is how often a seeded plan misbehaves, each as a share from 0 to 1.
type Mix struct {
	// Post, Look and Callback are how many keys have a fault of that sort.
	Post, Look, Callback float64
	// Fails is how many jobs end without success, Stubborn how many ignore a cancel, Forgets how
	// many are forgotten soon after their end, MindChanges how many are said to run again.
	Fails, Stubborn, Forgets, MindChanges float64
	// Shortest and Longest are how long jobs last.
	Shortest, Longest time.Duration
}

// DefaultMix disturbs most keys in some way.
func DefaultMix() Mix {
	return Mix{Post: 0.5, Look: 0.3, Callback: 0.7, Fails: 0.15, Stubborn: 0.3, Forgets: 0.1, MindChanges: 0.15, Shortest: 0, Longest: 3 * time.Second}
}

// Seeded makes plans that follow from a seed and the key alone: the same seed gives the same
// misbehaviour whatever the order in which requests come.
func Seeded(seed uint64, mix Mix) func(Submission) Plan {
	return func(s Submission) Plan {
		h := fnv.New64a()
		_, _ = h.Write([]byte(s.Key)) // never fails
		rng := rand.New(rand.NewPCG(seed, h.Sum64()))
		chance := func(share float64) bool { return rng.Float64() < share }
		pick := func(faults ...Fault) Fault { return faults[rng.IntN(len(faults))] }
		p := Plan{
			Lasts: mix.Shortest + time.Duration(rng.Int64N(int64(max(1, mix.Longest-mix.Shortest)))),
			Fails: chance(mix.Fails), Stubborn: chance(mix.Stubborn), MindChanges: chance(mix.MindChanges),
			CallbackDelay: time.Second + time.Duration(rng.Int64N(int64(4*time.Second))),
		}
		if chance(mix.Post) {
			faults := []Fault{DropBefore, DropAfter, HangBefore, HangAfter, Throttle, Unavailable, BadGateway, TwoAnswers, Refuse}
			if s.Mode == Safe {
				faults = append(faults, ProxyRetry)
			}
			for range 1 + rng.IntN(2) {
				p.Posts = append(p.Posts, pick(faults...))
			}
		}
		if chance(mix.Look) {
			for range 1 + rng.IntN(3) {
				p.Looks = append(p.Looks, pick(LookThrottle, LookDrop, LookError, LookHang))
			}
		}
		if chance(mix.Forgets) {
			p.Forgets = time.Millisecond + time.Duration(rng.Int64N(int64(2*time.Second)))
		}
		if chance(mix.Callback) {
			p.Callback = pick(CallbackEarly, CallbackLate, CallbackTwice, CallbackDisorder, CallbackPlain)
		}
		if p.Callback == CallbackEarly {
			p.Lasts = 0
		}
		return p
	}
}

// Faults lists them all.
func Faults() []Fault {
	return []Fault{
		DropBefore, DropAfter, HangBefore, HangAfter, Throttle, Unavailable, BadGateway, TwoAnswers, ProxyRetry, Refuse,
		LookThrottle, LookDrop, LookError, LookHang, MindChange, Forget,
		CallbackEarly, CallbackLate, CallbackTwice, CallbackDisorder,
	}
}
