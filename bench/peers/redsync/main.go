// SPDX-License-Identifier: MIT

// redsync over go-redis: one client for each server, a mutex object for each acquisition. Its
// 32 tries would give up under contention, so the tries are unbounded.
package main

import (
	"errors"
	"math"
	"workloads"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func open(o *workloads.Options) (workloads.Acquire, error) {
	network, address := o.Address()
	addresses := o.Members()
	if addresses == nil {
		addresses = []string{address}
	}
	var pools []pool.Pool
	for _, address := range addresses {
		client := redis.NewClient(&redis.Options{Network: network, Addr: address})
		pools = append(pools, goredis.NewPool(client))
	}
	locks := redsync.New(pools...)
	options := []redsync.Option{redsync.WithExpiry(o.Lease), redsync.WithTries(math.MaxInt32)}
	if o.Retry > 0 {
		options = append(options, redsync.WithRetryDelay(o.Retry))
	}
	return func(name string) (func() error, error) {
		mutex := locks.NewMutex(name, options...)
		if err := mutex.Lock(); err != nil {
			return nil, err
		}
		return func() error {
			if ok, err := mutex.Unlock(); !ok || err != nil {
				return errors.Join(errors.New("not released"), err)
			}
			return nil
		}, nil
	}, nil
}

func main() { workloads.Main(open) }
