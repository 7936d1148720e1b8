// Package activities holds everything of Wakepoint that touches the world, one
// verb a file. An activity is safe to repeat: each says what makes it so.
// Whatever an executor says is mapped to events of the domain here and nowhere
// else.
package activities
