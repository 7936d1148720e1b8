// Package run holds the rules of an agent run: its steps and their commits, its
// tool calls and their results, its waiting and waking. Like package domain it is
// pure: time and lots are arguments, and what has to be done comes back as values.
//
// A [Run] is a value. [Apply] takes it and an [Event] and gives the next one,
// [Due] says what time alone brings, [Next] what has to be done now, and
// [Run.Request] what the runtime is asked at its next step.
package run
