// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	locks "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsync with one master or several.
type redsyncLocks struct {
	rs    *redsync.Redsync
	mutex *redsync.Mutex
}

func newRedsync(clients []*redis.Client) *redsyncLocks {
	var pools []locks.Pool
	for _, client := range clients {
		pools = append(pools, goredis.NewPool(client))
	}
	return &redsyncLocks{rs: redsync.New(pools...)}
}

// A whole lease as the time-out of a command. The default, a twentieth of it, fails on a slow
// machine.
const timeoutFactor = 1

// redsync sets a lock's lease when the lock is made. To extend it to another lease, a new lock
// with the same token is needed.
func (l *redsyncLocks) lockOf(name string, lease time.Duration,
	more ...redsync.Option) *redsync.Mutex {

	return l.rs.NewMutex(name, append(more, redsync.WithExpiry(lease),
		redsync.WithTimeoutFactor(timeoutFactor), redsync.WithRetryDelay(poll))...)
}

func taken(err error) bool {
	var held *redsync.ErrTaken
	var node *redsync.ErrNodeTaken
	return errors.As(err, &held) || errors.As(err, &node) ||
		errors.Is(err, redsync.ErrFailed)
}

func (l *redsyncLocks) acquire(name string, lease, wait time.Duration) (
	string, bool, error) {

	tries := 1 + int(wait/poll)
	if wait < 0 {
		tries = 1 << 30
	}
	mutex := l.lockOf(name, lease, redsync.WithTries(tries))
	err := mutex.LockContext(context.Background())
	if err != nil {
		if taken(err) {
			err = nil
		}
		return "", false, err
	}
	l.mutex = mutex
	return mutex.Value(), true, nil
}

func (l *redsyncLocks) release() (bool, error) {
	held, err := l.mutex.Unlock()
	if !held && (taken(err) || errors.Is(err, redsync.ErrLockAlreadyExpired)) {
		err = nil
	}
	return held, err
}

func (l *redsyncLocks) extend(lease time.Duration) (bool, error) {
	longer := l.lockOf(l.mutex.Name(), lease, redsync.WithValue(l.mutex.Value()))
	held, err := longer.Extend()
	if held {
		l.mutex = longer
	} else if taken(err) || errors.Is(err, redsync.ErrExtendFailed) {
		err = nil
	}
	return held, err
}
