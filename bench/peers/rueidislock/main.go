// SPDX-License-Identifier: MIT

// rueidislock: waiters are woken by client-side caching, so that there is no retry delay.
// Variants: onekey, which its documentation recommends for a single Redis, and majority, its
// default (two of three keys).
package main

import (
	"context"
	"crypto/tls"
	"net"
	"workloads"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func open(o *workloads.Options) (workloads.Acquire, error) {
	network, address := o.Address()
	client := rueidis.ClientOption{InitAddress: []string{address}}
	if network == "unix" {
		client.DialCtxFn = func(ctx context.Context, path string, dialer *net.Dialer,
			_ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	}
	if hosts, service := o.Sentinels(); service != "" {
		client = rueidis.ClientOption{InitAddress: hosts,
			Sentinel: rueidis.SentinelOption{MasterSet: service}}
	}
	if hosts := o.Nodes(); hosts != nil {
		client = rueidis.ClientOption{InitAddress: hosts}
	}
	option := rueidislock.LockerOption{ClientOption: client, KeyValidity: o.Lease,
		NoLoopTracking: true}
	if o.Variant != "majority" {
		option.KeyMajority = 1
	}
	locker, err := rueidislock.NewLocker(option)
	if err != nil {
		return nil, err
	}
	return func(name string) (func() error, error) {
		_, cancel, err := locker.WithContext(context.Background(), name)
		if err != nil {
			return nil, err
		}
		return func() error { cancel(); return nil }, nil
	}, nil
}

func main() { workloads.Main(open) }
