package domain

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// LedgerLimit is how many of the newest callbacks a task remembers.
const LedgerLimit = 8192

// Answered is what the ledger keeps of a callback.
type Answered struct {
	// Digest is of the event, see [Event.Digest].
	Digest string
	// DeliveryID is hashed; compare with [Answered.Same].
	delivery [8]byte
	// Reason, Changed, Late and Version are the answer that was given.
	Reason  Reason
	Changed bool
	Late    bool
	Version int64
}

// Same tells whether the callback was answered for this very delivery, which
// then is no repeat: an update that timed out was sent again as a signal.
func (a Answered) Same(deliveryID string) bool {
	return deliveryID != "" && a.delivery == short(deliveryID)
}

type ledgerKey [16]byte

// Ledger remembers the callbacks that a task has answered, whatever the
// answer, the newest [LedgerLimit] of them. It is the memory of the signal
// door and of continue-as-new; the update door has the server's as well.
// The zero value is empty and ready. It is not safe for concurrent use.
type Ledger struct {
	seen  map[ledgerKey]Answered
	order []ledgerKey
	// next is where the ring is written once it is full.
	next int
	// Conflicts counts repeats of an id with another body.
	Conflicts int64
	// Repeats counts repeats with the same body.
	Repeats int64
}

func short(s string) [8]byte {
	sum := sha256.Sum256([]byte(s))
	return [8]byte(sum[:8])
}

func keyOf(id string) ledgerKey {
	sum := sha256.Sum256([]byte(id))
	return ledgerKey(sum[:16])
}

// Len is how many callbacks are remembered.
func (l *Ledger) Len() int { return len(l.order) }

// Seen gives what a callback id was answered.
func (l *Ledger) Seen(callbackID string) (Answered, bool) {
	a, ok := l.seen[keyOf(callbackID)]
	return a, ok
}

// Remember keeps the answer to a callback. An id that is there already keeps
// its first answer. An id of "" is not kept.
func (l *Ledger) Remember(callbackID, deliveryID, digest string, tr Transition) {
	if callbackID == "" {
		return
	}
	k := keyOf(callbackID)
	if _, ok := l.seen[k]; ok {
		return
	}
	l.put(k, Answered{Digest: digest, delivery: short(deliveryID), Reason: tr.Reason, Changed: tr.Changed, Late: tr.Late, Version: tr.Task.Version})
}

func (l *Ledger) put(k ledgerKey, a Answered) {
	if l.seen == nil {
		l.seen = make(map[ledgerKey]Answered)
	}
	if len(l.order) < LedgerLimit {
		l.order = append(l.order, k)
	} else {
		delete(l.seen, l.order[l.next])
		l.order[l.next] = k
		l.next = (l.next + 1) % LedgerLimit
	}
	l.seen[k] = a
}

// The packed form: 45 bytes a callback, oldest first. In plain JSON 8,192 of
// them would come close to the 2 MiB at which Temporal refuses a payload.
const (
	packedSize    = 16 + 16 + 8 + 1 + 4
	changedFlag   = 0x80
	lateFlag      = 0x40
	unknownReason = 0x3f
)

// ledgerReasons gives each reason its byte in the packed form. Append only:
// it is stored in histories.
var ledgerReasons = []Reason{
	ReasonStarted, ReasonAlreadyRunning, ReasonNotStartable, ReasonNotRunning, ReasonProgress, ReasonStaleProgress,
	ReasonDuplicateProgress, ReasonHeartbeat, ReasonStage, ReasonSucceeded, ReasonRequeued, ReasonFailed, ReasonExpired,
	ReasonTerminalConflict, ReasonDuplicateCallback, ReasonDuplicateResult, ReasonDuplicateExpire, ReasonStaleAttempt,
	ReasonInputRequired, ReasonDuplicateQuestion, ReasonCancelled, ReasonLeaseRenewed, ReasonLateResult,
	ReasonBeingUndone,
}

type packedLedger struct {
	Conflicts int64  `json:"conflicts,omitempty"`
	Repeats   int64  `json:"repeats,omitempty"`
	Packed    string `json:"packed,omitempty"`
}

// MarshalJSON packs the ledger. It takes a value, because on a pointer it would
// be passed over for a ledger inside a struct that is marshalled by value, and
// what is remembered would be lost at a continue-as-new without a word.
func (l Ledger) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.Grow(len(l.order) * packedSize)
	for i := range l.order {
		k := l.order[(l.next+i)%len(l.order)]
		a := l.seen[k]
		b.Write(k[:])
		var digest [16]byte
		if raw, err := hex.DecodeString(a.Digest); err == nil {
			copy(digest[:], raw)
		}
		b.Write(digest[:])
		b.Write(a.delivery[:])
		b.WriteByte(packReason(a))
		_ = binary.Write(&b, binary.BigEndian, uint32(min(a.Version, 1<<32-1))) //nolint:gosec // bounded; a buffer never fails
	}
	return json.Marshal(packedLedger{Conflicts: l.Conflicts, Repeats: l.Repeats, Packed: base64.StdEncoding.EncodeToString(b.Bytes())})
}

func packReason(a Answered) byte {
	code := byte(unknownReason)
	for i, r := range ledgerReasons {
		if r == a.Reason {
			code = byte(i)
		}
	}
	if a.Changed {
		code |= changedFlag
	}
	if a.Late {
		code |= lateFlag
	}
	return code
}

// ErrLedger is a packed ledger that cannot be read.
var ErrLedger = errors.New("broken ledger")

// UnmarshalJSON reads the packed form.
func (l *Ledger) UnmarshalJSON(raw []byte) error {
	var p packedLedger
	if err := json.Unmarshal(raw, &p); err != nil {
		return fmt.Errorf("%w: %w", ErrLedger, err)
	}
	b, err := base64.StdEncoding.DecodeString(p.Packed)
	if err != nil || len(b)%packedSize != 0 {
		return fmt.Errorf("%w: %d bytes are no whole number of entries", ErrLedger, len(b))
	}
	*l = Ledger{Conflicts: p.Conflicts, Repeats: p.Repeats}
	for ; len(b) > 0; b = b[packedSize:] {
		a := Answered{
			Digest: hex.EncodeToString(b[16:32]), delivery: [8]byte(b[32:40]),
			Reason: "other", Changed: b[40]&changedFlag != 0, Late: b[40]&lateFlag != 0, Version: int64(binary.BigEndian.Uint32(b[41:45])),
		}
		if i := int(b[40] &^ (changedFlag | lateFlag)); i < len(ledgerReasons) {
			a.Reason = ledgerReasons[i]
		}
		l.put(ledgerKey(b[:16]), a)
	}
	return nil
}

// Clone copies the ledger, so that a question can be answered without changing
// what is remembered.
func (l *Ledger) Clone() *Ledger {
	c := &Ledger{next: l.next, Conflicts: l.Conflicts, Repeats: l.Repeats, order: append([]ledgerKey(nil), l.order...)}
	c.seen = make(map[ledgerKey]Answered, len(l.seen))
	for _, k := range l.order {
		c.seen[k] = l.seen[k]
	}
	return c
}
