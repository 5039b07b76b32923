# SPDX-License-Identifier: MIT
"""A master, two replicas and three sentinels, thrown away at the end. Owns their lives and the
events that the sentinels publish. Independent of the clients.

Usual course: with Deployment(down_after_ms) as deployment: deployment.settle(); deployment.url;
deployment.strike(signal); deployment.told(limit); deployment.mend()"""
import os
import threading
import time

from measure import Failed
from resp import Link, RedisError
from server import Server

SERVICE = "the-master"
QUORUM, SENTINELS, REPLICAS = 2, 3, 2
SETTLE_LIMIT_S = 90
SWITCH = "+switch-master"


def until(condition, limit_s, what):
    """Calls `condition` until its result is true, and returns the result."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            result = condition()
        except (OSError, RedisError):
            result = None
        if result:
            return result
        time.sleep(0.02)
    raise Failed("waited %g s in vain: %s" % (limit_s, what))


def fields(values):
    """Returns a reply of SENTINEL as a dict."""
    return dict(zip(values[::2], values[1::2]))


class Sentinel(Server):
    """One sentinel, which writes its own configuration file."""

    def __init__(self, master_port, down_after_ms):
        self.lines = ["sentinel monitor %s 127.0.0.1 %d %d" % (SERVICE, master_port, QUORUM),
                      "sentinel down-after-milliseconds %s %d" % (SERVICE, down_after_ms)]
        super().__init__()

    def _arguments(self):
        path = os.path.join(self.directory, "sentinel.conf")
        with open(path, "w") as file:
            file.write("\n".join(
                ["port %d" % self.port, "bind 127.0.0.1", "unixsocket " + self.path,
                 "dir " + self.directory, "logfile " + self.log_path] + self.lines) + "\n")
        return [path, "--sentinel"]

    def master(self):
        return fields(self.link("SENTINEL", "MASTER", SERVICE))

    def knows_all(self, master_port):
        """Returns true if the sentinel knows all servers and sentinels and none of them is down.
        Valkey 9 keeps the flag of a sentinel that once reported a master as down."""
        replicas = [fields(one) for one in self.link("SENTINEL", "REPLICAS", SERVICE)]
        others = [fields(one) for one in self.link("SENTINEL", "SENTINELS", SERVICE)]
        master = self.master()
        return (int(master["port"]) == master_port and master["flags"] == "master"
                and [one["flags"] for one in replicas] == ["slave"] * REPLICAS
                and [one["flags"].removesuffix(",master_down") for one in others]
                == ["sentinel"] * (SENTINELS - 1))


class Events:
    """The events that the sentinels publish, with the times (ns of CLOCK_MONOTONIC) of their
    arrival."""

    def __init__(self, sentinels):
        self.heard, self.changed = [], threading.Condition()
        self.links = [Link(sentinel.path, timeout=None) for sentinel in sentinels]
        for number, link in enumerate(self.links):
            link("PSUBSCRIBE", "*")
            threading.Thread(target=self._read, args=(number, link), daemon=True).start()

    def _read(self, number, link):
        while True:
            try:
                _, _, event, text = link.read()
            except (OSError, RedisError, ValueError):
                return
            with self.changed:
                self.heard.append((time.monotonic_ns(), number, event, text))
                self.changed.notify_all()

    def forget(self):
        with self.changed:
            self.heard.clear()

    def await_switch(self, limit_s):
        """Waits until all sentinels have published the switch."""
        def told():
            return len({number for _, number, event, _ in self.heard
                        if event == SWITCH}) == len(self.links)
        with self.changed:
            if not self.changed.wait_for(told, limit_s):
                raise Failed("no failover within %g s" % limit_s)

    def times(self, event):
        """Returns the times at which the event was published for this master, at least one."""
        with self.changed:
            times = sorted(at for at, _, name, text in self.heard if name == event
                           and text.startswith(("master ", SERVICE + " ")))
        if not times:
            raise Failed("no sentinel told of " + event)
        return times

    def close(self):
        for link in self.links:
            link.shut()


class Deployment:
    # The published events after the master's death, and the one that means that there is a new
    # master.
    EVENTS = {"+sdown": "the first sentinel misses it (`+sdown`)",
              "+odown": "they agree (`+odown`)",
              SWITCH: "the first tells of another master (`+switch-master`)",
              SWITCH + ", last": "the last does"}
    SWITCH, SWITCH_IS = SWITCH, "the first `+switch-master`"
    tag = ""  # part of the names: here all are at the one master

    def __init__(self, down_after_ms):
        self.servers, self.sentinels, self.events = [], [], None
        self.down_after_ms = down_after_ms

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        self.master = Server()
        self.servers.append(self.master)
        for _ in range(REPLICAS):
            self.servers.append(self._replica())
        for _ in range(SENTINELS):
            self.sentinels.append(Sentinel(self.master.port, self.down_after_ms))
        self.events = Events(self.sentinels)

    def _replica(self, port=None):
        return Server(port=port, more=self.master.as_replica())

    def __exit__(self, *_):
        if self.events:
            self.events.close()
        for server in self.sentinels + self.servers:
            server.__exit__()

    @property
    def url(self):
        return "redis-sentinel://%s/%s" % (
            ",".join("127.0.0.1:%d" % one.port for one in self.sentinels), SERVICE)

    def _settled(self):
        info = self.master.info("replication")
        return (info["role"] == "master"
                and all("state=online" in info.get("slave%d" % i, "") for i in range(REPLICAS))
                and all(one.knows_all(self.master.port) for one in self.sentinels))

    def settle(self):
        until(self._settled, SETTLE_LIMIT_S, "sentinels and servers know each other")
        self.events.forget()

    def strike(self, number):
        """Kills the master (SIGKILL) or stops it (SIGSTOP). Returns the time, in ns."""
        at = time.monotonic_ns()
        self.master.process.send_signal(number)
        return at

    def told(self, limit_s):
        """Waits for the switch, and sets the new master. Returns the times by the names of
        EVENTS."""
        self.events.await_switch(limit_s)
        self._follow()
        return {name: self.events.times(name.split(",")[0])[-1 if "," in name else 0]
                for name in self.EVENTS}

    def dump(self, key):
        """Returns the key's value at the master."""
        return self.master.link("DUMP", key)

    def _follow(self):
        port = int(self.sentinels[0].master()["port"])
        self.struck, self.master = self.master, next(
            server for server in self.servers if server.port == port)
        self.master.link.close()  # sentinels end its connections when its role changes
        self.master.link = Link(self.master.path)

    def mend(self):
        """Starts the old master again, empty, as a replica of the new one."""
        self.servers.remove(self.struck)
        self.struck.__exit__()
        self.servers.append(self._replica(self.struck.port))
