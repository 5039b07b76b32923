# SPDX-License-Identifier: MIT
"""A master that real sentinels watch, and its replica, for tests of the command and of the gateway.
Owns their processes. Independent of what is tested.

Usual course: watched = Watched(); a client of watched.url; watched.fail_over() or
watched.kill_master(); watched.stop().
"""
import os
import re
import shutil
import signal
import subprocess
import tempfile

from ports import free_port
from resp import Link, RedisError
from support import LIMIT, Redis, until

SERVICE = "the-master"


class Sentinel:
    """A sentinel with a quorum of one. It declares the master down only after a minute, so that a
    slow master is not replaced; see Watched.kill_master."""

    def __init__(self, master_port, *lines):
        self.folder = tempfile.mkdtemp(prefix="lockwire-test-")
        self.socket = os.path.join(self.folder, "s")
        self.process = None
        self.port = free_port()
        self.start(master_port, lines)

    def start(self, master_port, lines):
        path = os.path.join(self.folder, "sentinel.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write("\n".join((
                f"port {self.port}", "bind 127.0.0.1", f"unixsocket {self.socket}",
                f"dir {self.folder}", f"sentinel monitor {SERVICE} 127.0.0.1 {master_port} 1",
                f"sentinel down-after-milliseconds {SERVICE} {LIMIT * 1000}",
                f"sentinel failover-timeout {SERVICE} 3000", *lines, "")))
        self.launch()

    def launch(self):
        """Starts it, or starts it again, with what it wrote to its file."""
        path = os.path.join(self.folder, "sentinel.conf")
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        self.process = subprocess.Popen([program, path, "--sentinel"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL)
        until(self.answers, "the sentinel answers")

    def answers(self):
        try:
            return self("PING") == "PONG"
        except RedisError as error:
            return "NOAUTH" in str(error)
        except OSError:
            return False

    def __call__(self, *words):
        with Link(self.socket, LIMIT) as link:
            return link(*words)

    def says(self, of, field):
        """Reads SENTINEL MASTER, or the first entry of SENTINEL REPLICAS; None if it is missing."""
        answer = self("SENTINEL", of, SERVICE)
        fields = answer if of == "MASTER" else answer[0] if answer else []
        return dict(zip(fields[::2], fields[1::2])).get(field)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.kill()
        shutil.rmtree(self.folder)


class Watched:
    """`lines`: further lines of the sentinels' configuration."""

    def __init__(self, *lines, sentinels=1):
        self.started = []
        try:
            self.start(lines, sentinels)
        except BaseException:
            self.stop()
            raise

    def start(self, lines, sentinels):
        self.master, self.replica = self.add(Redis()), self.add(Redis())
        self.master_port, self.replica_port = self.master.listen(), self.replica.listen()
        self.master("CONFIG", "SET", "repl-diskless-sync-delay", 0)
        self.replica("REPLICAOF", "127.0.0.1", self.master_port)
        until(lambda: "master_link_status:up" in self.replica("INFO", "replication"),
              "the replica has its master")
        self.sentinels = [self.add(Sentinel(self.master_port, *lines)) for _ in range(sentinels)]
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        self.url = f"redis-sentinel://{hosts}/{SERVICE}"

    def add(self, server):
        self.started.append(server)
        return server

    def until_known(self):
        """Waits until the replica can be promoted, and has all data that the master has now."""
        written = self.offset(self.master, "master_repl_offset")
        until(lambda: self.offset(self.replica, "slave_repl_offset") >= written,
              "the replica has it")
        for sentinel in self.sentinels:
            until(lambda: sentinel.says("REPLICAS", "port") == str(self.replica_port)
                  and sentinel.says("REPLICAS", "master-link-status") == "ok",
                  "the sentinel knows the replica")

    @staticmethod
    def offset(server, field):
        return int(re.search(rf"^{field}:(\d+)", server("INFO", "replication"), re.M)[1])

    def fail_over(self):
        """Fails over by command, while the master is well."""
        self.until_known()
        self.sentinels[0]("SENTINEL", "FAILOVER", SERVICE)

    def call_down_soon(self):
        for sentinel in self.sentinels:
            sentinel("SENTINEL", "SET", SERVICE, "down-after-milliseconds", 500)

    def kill_master(self):
        self.until_known()
        self.call_down_soon()
        self.master.kill()

    def until_promoted(self):
        """Waits until the replica is the master. From now on it is not declared down, however slow
        it is. The sentinels have ended the connections of its clients."""
        for sentinel in self.sentinels:
            until(lambda: sentinel.says("MASTER", "port") == str(self.replica_port),
                  "the sentinel reports the replica")
        until(lambda: "role:master" in self.replica("INFO", "replication"),
              "the replica is the master")
        for sentinel in self.sentinels:
            sentinel("SENTINEL", "SET", SERVICE, "down-after-milliseconds", LIMIT * 1000)
            until(lambda: sentinel.says("MASTER", "flags") == "master", "it is not called down")

    def stop(self):
        for server in reversed(self.started):
            server.stop()
