# SPDX-License-Identifier: MIT
"""python-redis-lock: waiters block in BLPOP, so that there is no retry delay. One client for all
threads, with a connection for each slot, since its pool would refuse more than 100. An expiring
lock object for each acquisition. Its renewal, a thread for each lock, is used only if locks are
held for long."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../common/python"))
import redis  # noqa: E402
import redis_lock  # noqa: E402
import workloads  # noqa: E402

client = None


def make_lock(options, name):
    global client
    if client is None:
        client = redis.StrictRedis.from_url(options.url, max_connections=options.slots + 10)
    return redis_lock.Lock(client, name, expire=max(1, options.lease_ms // 1000),
                           auto_renewal=options.renewed)


if __name__ == "__main__":
    workloads.main("python-redis-lock %s, redis-py %s"
                   % (redis_lock.__version__, redis.__version__), make_lock)
