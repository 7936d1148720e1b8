package domain_test

import (
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

func TestDeliver(t *testing.T) {
	t.Parallel()
	done, open := task(t, "; start at=1; succeed at=2 ref=r hash=h"), task(t, "; start at=1")
	mine := &domain.Receipt{TaskID: "t", ResultRef: "old", ResultHash: "oldhash", IdempotencyKey: "k", DeliveredAtMs: 3}
	others := &domain.Receipt{TaskID: "other", ResultRef: "secret", ResultHash: "secret", IdempotencyKey: "k", DeliveredAtMs: 3}
	for _, c := range []struct {
		name          string
		task          *domain.Task
		prior         *domain.Receipt
		ok, duplicate bool
		reason        domain.Reason
		receipt       string // reference of its result; empty for none
	}{
		{"a succeeded task", &done, nil, true, false, domain.ReasonDelivered, "r"},
		{"an open task", &open, nil, false, false, domain.ReasonNotSucceeded, ""},
		{"the key again", &done, mine, true, true, domain.ReasonDuplicateDelivery, "old"},
		{"the key again, while the task is open", &open, mine, true, true, domain.ReasonDuplicateDelivery, "old"},
		{"the key again, when the task is gone", nil, mine, true, true, domain.ReasonDuplicateDelivery, "old"},
		{"the key of another task", &done, others, false, true, domain.ReasonKeyReused, ""},
		{"the key of another task, for an unknown one", nil, others, false, true, domain.ReasonKeyReused, ""},
	} {
		d, err := domain.Deliver("t", c.task, c.prior, "k", 50)
		if err != nil || d.OK != c.ok || d.Duplicate != c.duplicate || d.Reason != c.reason {
			t.Errorf("%s: %+v (%v)", c.name, d, err)
		}
		if (d.Receipt == nil) != (c.receipt == "") || d.Receipt != nil && d.Receipt.ResultRef != c.receipt {
			t.Errorf("%s: receipt %+v", c.name, d.Receipt)
		}
	}
	d, err := domain.Deliver("t", &done, nil, "k", 50)
	want := domain.Receipt{TaskID: "t", ResultRef: "r", ResultHash: "h", IdempotencyKey: "k", DeliveredAtMs: 50}
	if err != nil || *d.Receipt != want {
		t.Errorf("receipt %+v (%v)", d.Receipt, err)
	}
	for _, end := range []string{"; expire at=1000", "; start at=1; fail at=2", "; cancel-requested at=1", ""} {
		now := task(t, end)
		if d, err := domain.Deliver("t", &now, nil, "k", 50); err != nil || d.OK || d.Reason != domain.ReasonNotSucceeded || d.Receipt != nil {
			t.Errorf("%s: %+v (%v)", end, d, err)
		}
	}
}

func TestDeliverInvalid(t *testing.T) {
	t.Parallel()
	done := task(t, "; start at=1; succeed at=2 ref=r hash=h")
	for _, c := range []struct {
		name, key string
		nowMs     int64
		task      *domain.Task
		want      string
	}{
		{"no key", "", 5, &done, "idempotencyKey"},
		{"a blank key", " \t", 5, &done, "idempotencyKey"},
		{"a key that is too long", strings.Repeat("k", 2049), 5, &done, "idempotencyKey"},
		{"a key that is no text", "\xff", 5, &done, "idempotencyKey"},
		{"a negative time", "k", -1, &done, "nowMs"},
		{"an unknown task", "k", 5, nil, "taskId"},
		{"a blank key for an unknown task", " ", -1, nil, "idempotencyKey"},
	} {
		if d, err := domain.Deliver("t", c.task, nil, c.key, c.nowMs); field(err) != c.want || d.OK || d.Receipt != nil {
			t.Errorf("%s: %+v, %v", c.name, d, err)
		}
	}
	// Even a known key does not make a broken request good.
	if _, err := domain.Deliver("t", &done, &domain.Receipt{TaskID: "t"}, "k", -1); field(err) != "nowMs" {
		t.Errorf("a negative time with a known key: %v", err)
	}
	if err := domain.CheckDelivery(strings.Repeat("k", 2048), 0); err != nil {
		t.Errorf("the longest key: %v", err)
	}
}
