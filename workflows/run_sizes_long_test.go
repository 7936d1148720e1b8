//go:build long

package workflows_test

// How many seeds the property test of runs lives.
const propertySeeds = 10_000
