// Package bench holds what is claimed of speed and memory, each claim as a
// benchmark: `make bench BENCH=Task`. Absolute figures belong to one machine;
// what carries over are ratios of figures of the same run, so each benchmark of
// ours stands beside one of the bare engine.
package bench
