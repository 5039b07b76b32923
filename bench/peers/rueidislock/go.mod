module peer

go 1.25.0

require (
	github.com/redis/rueidis v1.0.79
	workloads v0.0.0
)

require golang.org/x/sys v0.47.0 // indirect

replace workloads => ../common/go
