// Package config reads wakepoint.yaml: what the operator of an installation
// declares, above all its tools. Nothing in it can be given by a caller.
//
// A file is either right as a whole or refused as a whole: [Parse] reports every
// mistake that it finds, each with its line and column. The same rules hold for a
// configuration that is built in Go, see [New].
package config
