# SPDX-License-Identifier: MIT
"""redis-py's Lock: one client for all threads, with a connection for each slot, since its pool
would refuse more than 100, and a lock object for each acquisition."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../common/python"))
import redis  # noqa: E402
import redis.sentinel  # noqa: E402
import workloads  # noqa: E402
from redis.cluster import ClusterNode  # noqa: E402

PATIENCE_S = 0.1  # as in redis-py's documentation, for sentinels and the master
client = None


def connect(options):
    """Connects to redis-sentinel://host:port,host:port/service,
    redis-cluster://host:port,host:port, or a server."""
    scheme, _, rest = options.url.partition("://")
    places, _, service = rest.partition("/")
    if scheme not in ("redis-sentinel", "redis-cluster"):
        return redis.Redis.from_url(options.url, max_connections=options.slots + 10)
    hosts = [tuple(place.rsplit(":", 1)) for place in places.split(",")]
    if scheme == "redis-cluster":
        return redis.RedisCluster(startup_nodes=[ClusterNode(*host) for host in hosts],
                                  max_connections=options.slots + 10)
    return redis.sentinel.Sentinel(hosts, socket_timeout=PATIENCE_S).master_for(
        service, socket_timeout=PATIENCE_S)


def make_lock(options, name):
    global client
    if client is None:
        client = connect(options)
    retry = {"sleep": options.retry_ms / 1000} if options.retry_ms else {}
    return client.lock(name, timeout=options.lease_ms / 1000, **retry)


if __name__ == "__main__":
    workloads.main("redis-py " + redis.__version__, make_lock)
