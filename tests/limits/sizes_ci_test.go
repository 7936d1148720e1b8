//go:build !long

package limits

// How deep the backlog of two tenants is. `make long` does more.
const manyOfTheBig, fewOfTheSmall = 180, 10
