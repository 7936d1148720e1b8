module github.com/wakepoint/wakepoint

go 1.26.0
