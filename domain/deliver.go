package domain

// Receipt proves that a result was handed over, once per idempotency key.
type Receipt struct {
	TaskID         string `json:"taskId"`
	ResultRef      string `json:"resultRef"`
	ResultHash     string `json:"resultHash"`
	IdempotencyKey string `json:"idempotencyKey"`
	DeliveredAtMs  int64  `json:"deliveredAtMs"`
}

// Delivered is the answer to a delivery.
type Delivered struct {
	OK        bool     `json:"ok"`
	Duplicate bool     `json:"duplicate"`
	Reason    Reason   `json:"reason"`
	Receipt   *Receipt `json:"receipt,omitempty"`
}

// Deliver hands over the result of a task under an idempotency key. The prior
// receipt of that key, if there is one, decides before the task is looked at.
// A nil task is an unknown one. A key that was used for another task does not
// bring that task's receipt: it would show one caller's result to another.
func Deliver(taskID string, t *Task, prior *Receipt, key string, nowMs int64) (Delivered, error) {
	if err := CheckDelivery(key, nowMs); err != nil {
		return Delivered{}, err
	}
	switch {
	case prior != nil && prior.TaskID == taskID:
		return Delivered{OK: true, Duplicate: true, Reason: ReasonDuplicateDelivery, Receipt: prior}, nil
	case prior != nil:
		return Delivered{Duplicate: true, Reason: ReasonKeyReused}, nil
	case t == nil:
		return Delivered{}, Invalid("taskId", "must name a task that exists, %q does not", taskID)
	case t.State != StateSucceeded:
		return Delivered{Reason: ReasonNotSucceeded}, nil
	}
	return Delivered{OK: true, Reason: ReasonDelivered, Receipt: &Receipt{
		TaskID: taskID, ResultRef: t.ResultRef, ResultHash: t.ResultHash, IdempotencyKey: key, DeliveredAtMs: nowMs,
	}}, nil
}

// CheckDelivery checks the caller's part of a delivery.
func CheckDelivery(key string, nowMs int64) error {
	if blank(key) {
		return Invalid("idempotencyKey", "must not be blank")
	}
	if err := checkText("idempotencyKey", key, MaxRef); err != nil {
		return err
	}
	if nowMs < 0 {
		return Invalid("nowMs", "must be >= 0, it is %d", nowMs)
	}
	return nil
}
