module github.com/wakepoint/wakepoint

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0 // indirect
	gocloud.dev v0.49.0 // indirect
)
