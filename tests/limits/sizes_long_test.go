//go:build long

package limits

const manyOfTheBig, fewOfTheSmall = 1900, 100
