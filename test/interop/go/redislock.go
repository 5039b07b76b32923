// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// bsm/redislock.
type redislockLocks struct {
	client *redislock.Client
	lock   *redislock.Lock
}

func newRedislock(client *redis.Client) *redislockLocks {
	return &redislockLocks{client: redislock.New(client)}
}

// Without a deadline redislock gives up after one lease.
const forEver = 24 * time.Hour

func (l *redislockLocks) acquire(name string, lease, wait time.Duration) (
	string, bool, error) {

	retry := redislock.LinearBackoff(poll)
	if wait == 0 {
		retry = redislock.NoRetry()
	}
	if wait <= 0 {
		wait = forEver
	}
	limited, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	options := &redislock.Options{RetryStrategy: retry}
	lock, err := l.client.Obtain(limited, name, lease, options)
	if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	l.lock = lock
	return lock.Token(), true, nil
}

func (l *redislockLocks) release() (bool, error) {
	err := l.lock.Release(context.Background())
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return false, nil
	}
	return err == nil, err
}

func (l *redislockLocks) extend(lease time.Duration) (bool, error) {
	err := l.lock.Refresh(context.Background(), lease, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}
