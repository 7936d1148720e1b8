// Package limits shows on the real engine that limits on jobs at a time, rates,
// priorities and fairness hold, under a backlog.
package limits
