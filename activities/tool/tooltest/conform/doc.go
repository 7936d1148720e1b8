// Package conform is the suite that every executor of tools passes, those of Wakepoint and those of
// anybody else. It holds an executor to the contract of [tool.Executor] and to what it promises of
// itself by [tool.Promises], and goes by what the outside really did, not by what the executor says
// of it.
//
// A test of an executor describes it as a [Subject] and calls [Run]:
//
//	func TestConformance(t *testing.T) {
//		conform.Run(t, conform.Subject{
//			New:     func(t conform.T) tool.Executor { return mine.New(service.URL) },
//			Plan:    func(t conform.T, key string, p conform.Plan) json.RawMessage { ... },
//			Started: func(t conform.T, key string) int { return service.Started(key) },
//			...
//		})
//	}
//
// Every check is a sub-test of its own. One that does not apply, because the executor does not
// promise the thing or the outside cannot be made to do it, is listed with its reason in the table
// that ends the run: nothing is left out in silence. [Checks] lists them all.
//
// The suite waits by polling, never by counting on a duration: a slow outside takes longer and
// passes all the same.
package conform
