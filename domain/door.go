package domain

import "fmt"

// Callback is a message from outside about a task, by signal or by update.
type Callback struct {
	// CallbackID is the sender's name for it; a repeat carries the same.
	CallbackID string `json:"callbackId"`
	// DeliveryID is new for each time it is sent; see [Outcome].
	DeliveryID string `json:"deliveryId,omitempty"`
	Event      Event  `json:"event"`
	// Source names who sends.
	Source string `json:"source,omitempty"`
	// OccurredAtMs is the sender's clock, for people.
	OccurredAtMs int64 `json:"occurredAtMs,omitempty"`
}

// Validate checks a callback without looking at any task.
func (c Callback) Validate() error {
	if err := c.checkEnvelope(); err != nil {
		return err
	}
	return c.checkEvent()
}

// checkEnvelope checks all but the event.
func (c Callback) checkEnvelope() error {
	if blank(c.CallbackID) {
		return Invalid("callbackId", "must not be blank")
	}
	if err := checkText("callbackId", c.CallbackID, MaxCallbackID); err != nil {
		return err
	}
	if err := checkText("deliveryId", c.DeliveryID, MaxCallbackID); err != nil {
		return err
	}
	if err := checkText("source", c.Source, MaxWorker); err != nil {
		return err
	}
	if c.OccurredAtMs < 0 {
		return Invalid("occurredAtMs", "must be >= 0, it is %d", c.OccurredAtMs)
	}
	return nil
}

func (c Callback) checkEvent() error {
	if known(c.Event.Type) && !c.Event.Type.Door() {
		return Invalid("event.type", "must be one that may be sent from outside, %q is not", c.Event.Type)
	}
	return c.Event.Validate()
}

// Outcome answers a callback. It echoes the delivery and the digest of the
// body, so that a client that is given a stored outcome sees that it is one:
// see [Outcome.For].
type Outcome struct {
	Reason     Reason `json:"reason"`
	Changed    bool   `json:"changed"`
	Duplicate  bool   `json:"duplicate"`
	Late       bool   `json:"late,omitempty"`
	Conflict   bool   `json:"conflict,omitempty"`
	State      State  `json:"state"`
	Version    int64  `json:"version"`
	DeliveryID string `json:"deliveryId,omitempty"`
	Digest     string `json:"digest,omitempty"`
}

// For reads a stored outcome as the sender of this callback: an outcome that
// belongs to another delivery means that this one is a repeat, and another
// digest means that it says something else under the same id.
func (o Outcome) For(c Callback) Outcome {
	if o.DeliveryID == c.DeliveryID && o.Digest == c.Event.Digest() {
		return o
	}
	if o.Reason == ReasonDuplicateCallback && o.DeliveryID == c.DeliveryID {
		return o
	}
	return Outcome{
		Reason: ReasonDuplicateCallback, Duplicate: true, Conflict: o.Digest != c.Event.Digest(),
		State: o.State, Version: o.Version, DeliveryID: c.DeliveryID, Digest: o.Digest,
	}
}

// RefusedError says that a callback would change nothing, and why. It is what
// the validator of the update gives, at no cost in history.
type RefusedError struct{ Outcome Outcome }

// Error gives the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: the task is %s at version %d", e.Outcome.Reason, e.Outcome.State, e.Outcome.Version)
}

// Unpack takes the digest of a callback and turns an inline result into a
// reference. It gives the content that has to be stored, or nil. What is wrong
// with the event is left to [Judge], because a repeat is answered before the
// event is looked at.
func Unpack(t Task, c Callback) (clean Callback, digest string, content []byte, err error) {
	if err := c.checkEnvelope(); err != nil {
		return c, "", nil, err
	}
	digest = c.Event.Digest()
	if c.checkEvent() != nil {
		return c, digest, nil, nil
	}
	c.Event, content, err = Inline(c.Event, func(hash string) string { return BlobRef(t.Tenant, t.ID, hash) })
	return c, digest, content, err
}

// Receive answers a callback and remembers the answer in the ledger. The
// event's time is clamped to nowMs; 0 stands for now. For a repeat the task
// stays as it is. The event must have no inline result any more, see [Inline].
func Receive(t Task, l *Ledger, c Callback, digest string, nowMs int64) (Transition, Outcome, error) {
	tr, out, err := Judge(t, l, c, digest, nowMs)
	if err != nil {
		return tr, out, err
	}
	if out.Reason == ReasonDuplicateCallback {
		if out.Conflict {
			l.Conflicts++
		} else {
			l.Repeats++
		}
	}
	l.Remember(c.CallbackID, c.DeliveryID, digest, tr)
	return tr, out, nil
}

// Judge is [Receive] without the remembering.
func Judge(t Task, l *Ledger, c Callback, digest string, nowMs int64) (Transition, Outcome, error) {
	if err := c.checkEnvelope(); err != nil {
		return Transition{}, Outcome{}, err
	}
	if a, ok := l.Seen(c.CallbackID); ok {
		tr, out := again(t, a, c, digest)
		return tr, out, nil
	}
	if err := c.checkEvent(); err != nil {
		return Transition{}, Outcome{}, err
	}
	e := c.Event
	if !t.Policy.TrustTimes && (e.AtMs == 0 || e.AtMs > nowMs) {
		e.AtMs = nowMs
	}
	if e.Source == "" {
		e.Source = c.Source
	}
	if e.OccurredAtMs == 0 {
		e.OccurredAtMs = c.OccurredAtMs
	}
	e.Jitter = LotFor(t.ID, t.Attempts)
	tr, err := Apply(t, e)
	if err != nil {
		return Transition{}, Outcome{}, err
	}
	return tr, Outcome{
		Reason: tr.Reason, Changed: tr.Changed, Duplicate: tr.Duplicate, Late: tr.Late,
		State: tr.Task.State, Version: tr.Task.Version, DeliveryID: c.DeliveryID, Digest: digest,
	}, nil
}

func again(t Task, a Answered, c Callback, digest string) (Transition, Outcome) {
	tr := Transition{Task: t, Reason: ReasonDuplicateCallback, Duplicate: true}
	out := Outcome{
		Reason: ReasonDuplicateCallback, Duplicate: true, Conflict: a.Digest != digest,
		State: t.State, Version: t.Version, DeliveryID: c.DeliveryID, Digest: a.Digest,
	}
	if a.Same(c.DeliveryID) && !out.Conflict {
		out.Reason, out.Changed, out.Late, out.Duplicate, out.Version = a.Reason, a.Changed, a.Late, repeats(a.Reason), a.Version
	}
	return tr, out
}

// Admit is the check before an update is taken. It refuses what is invalid, and
// by default also what would change nothing, because a refusal costs no
// history and a repeat of it gets the same answer. With Policy.Strict such a
// callback is let in, answered and remembered.
func Admit(t Task, l *Ledger, c Callback, digest string, nowMs int64) error {
	tr, out, err := Judge(t, l, c, digest, nowMs)
	switch {
	case err != nil:
		return err
	case t.Policy.Strict, tr.Changed, tr.Reason == ReasonHeartbeat:
		return nil
	}
	return &RefusedError{Outcome: out}
}
