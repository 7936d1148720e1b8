//go:build !long

package workflows_test

// How many seeds the property test of runs lives. `make long` does more.
const propertySeeds = 400
