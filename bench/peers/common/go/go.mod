module workloads

go 1.24
