# SPDX-License-Identifier: MIT
"""Three private servers that are a quorum, for tests in Python. They grant locks at once: each has a
guard record as another client would have left it, so that no test waits for the guard time.

A test calls quorum_start(self), which needs a ToolTest, and gives self.url to a program.
"""
import guard_record
from ports import free_port


def quorum_start(test, count=3):
    """Starts test.servers, each with its port; sets test.hosts, their addresses, and test.url."""
    test.servers = []
    for _ in range(count):
        server = test.redis()
        server.port = free_port()
        server("CONFIG", "SET", "port", str(server.port))
        guard_record.open_now(server)
        test.servers.append(server)
    test.hosts = [f"127.0.0.1:{server.port}" for server in test.servers]
    test.url = "redis-quorum://" + ",".join(test.hosts)


def quorum_restart(server, guard_ms=guard_record.GUARD_MS):
    """Starts a killed server again at its port, without its data. It grants locks at once."""
    server.start()
    guard_record.open_now(server, guard_ms)
    server("CONFIG", "SET", "port", str(server.port))
