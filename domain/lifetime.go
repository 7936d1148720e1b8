package domain

// KeptUntilMs is until when at least the result of a task and the logs of its jobs are
// kept, in milliseconds since the epoch; 0 before its end. ttlMs is the installation's
// and counts for a task that has none of its own. A result that came late lives from
// then on.
//
// It is a lower bound: a sweep comes after it, and a task that is retried keeps all.
// What the engine forgets earlier, because its retention is shorter, is not found any
// more.
func (t Task) KeptUntilMs(ttlMs int64) int64 {
	if !t.State.Terminal() || t.EndedAtMs == 0 {
		return 0
	}
	if t.ResultTTLMs > 0 {
		ttlMs = t.ResultTTLMs
	}
	end := t.EndedAtMs
	if t.Late != nil {
		end = max(end, t.Late.AtMs)
	}
	return end + ttlMs
}
