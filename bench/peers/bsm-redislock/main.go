// SPDX-License-Identifier: MIT

// bsm/redislock over go-redis: one client. It does not wait unless it is given a strategy. The
// example in its documentation is a linear backoff of 100 ms.
package main

import (
	"context"
	"time"
	"workloads"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func open(o *workloads.Options) (workloads.Acquire, error) {
	network, address := o.Address()
	locker := redislock.New(redis.NewClient(&redis.Options{Network: network, Addr: address}))
	delay := 100 * time.Millisecond
	if o.Retry > 0 {
		delay = o.Retry
	}
	return func(name string) (func() error, error) {
		// Without a deadline in the context it stops waiting after one lease.
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		lock, err := locker.Obtain(ctx, name, o.Lease, &redislock.Options{
			RetryStrategy: redislock.LinearBackoff(delay)})
		cancel()
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release(context.Background()) }, nil
	}, nil
}

func main() { workloads.Main(open) }
