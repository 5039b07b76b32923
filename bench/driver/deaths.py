# SPDX-License-Identifier: MIT
"""A cluster of three masters and a replica of each, one of whose masters dies. Owns the cluster,
and finds out when its nodes know of the death. Independent of the clients.

Usual course: with Deaths(node_timeout_ms) as deaths: deaths.settle(); deaths.url;
deaths.strike(signal); deaths.told(limit); deaths.mend()"""
import threading
import time

from clustered import Clustered
from measure import Failed
from resp import RedisError
from server import ARGUMENTS

SOON_S, LATER_S = 0.002, 0.02  # pauses between two looks at its replica, and at the others


def said(view, dead, slot):
    """Returns whether that node is down, and the owner of the slot, as the view of a node shows
    them."""
    down, owner = False, None
    for name, flags, _, _, _, *slots in view:
        down = down or name == dead and "fail" in flags.split(",")
        for text in slots:
            first, _, last = text.partition("-")
            if int(first) <= slot <= int(last or first):
                owner = name
    return down, owner


class Watch(threading.Thread):
    """Polls one node until it knows another master, and records the times (ns) of what it
    reports."""

    def __init__(self, node, dead, slot, pause_s):
        super().__init__(daemon=True)
        self.node, self.dead, self.slot, self.pause_s = node, dead, slot, pause_s
        self.down_ns = self.switch_ns = self.owner = None
        self.start()

    def run(self):
        while self.switch_ns is None:
            try:
                self.look()
            except (OSError, RedisError):
                return
            time.sleep(self.pause_s)

    def look(self):
        down, owner = said(self.node.view(), self.dead.id, self.slot)
        now = time.monotonic_ns()
        if down and self.down_ns is None:
            self.down_ns = now
        if owner not in (None, self.dead.id):
            self.switch_ns, self.owner = now, owner


class Deaths:
    # The reported events after the master's death, and the one that means that there is a new
    # master.
    EVENTS = {"fail": "the first node calls it down (`fail`)",
              "switch": "its replica answers as the master",
              "known": "the last node knows"}
    SWITCH, SWITCH_IS = "switch", "the replica answers as the master"
    tag = "{bench}"  # part of the names, so that all are in one slot

    def __init__(self, node_timeout_ms):
        self.cluster = Clustered(*ARGUMENTS, timeout=node_timeout_ms)
        self.url = self.cluster.url
        self.slot = self.cluster.slot(self.tag)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.stop()

    def settle(self):
        self.cluster.until_well()
        self.master = self.cluster.owner(self.slot)
        self.master("FLUSHALL")

    def strike(self, number):
        """Kills the slot's master (SIGKILL) or stops it (SIGSTOP). Returns the time, in ns."""
        replicas = [node for node in self.cluster.nodes if node is not self.master
                    and self.master.id in (line[2] for line in node.view()
                                           if line[0] == node.id)]
        at = time.monotonic_ns()
        self.master.process.send_signal(number)
        self.master.running = False
        self.watches = [Watch(node, self.master, self.slot,
                              SOON_S if node in replicas else LATER_S)
                        for node in self.cluster.running]
        return at

    def told(self, limit_s):
        """Waits until all nodes know the new master, and sets it. Returns the times by the names
        of EVENTS."""
        end = time.monotonic() + limit_s
        for watch in self.watches:
            watch.join(max(0, end - time.monotonic()))
        if not all(watch.switch_ns for watch in self.watches):
            raise Failed("no failover within %g s" % limit_s)
        self.struck = self.master
        self.master = self.cluster.by_id(self.watches[0].owner)
        switched = [watch.switch_ns for watch in self.watches]
        return {"fail": min(watch.down_ns for watch in self.watches if watch.down_ns),
                "switch": min(switched), "known": max(switched)}

    def dump(self, key):
        """Returns the key's value at the master."""
        return self.master("DUMP", key)

    def mend(self):
        """Starts the old master again; it is empty, and becomes a replica of the new one."""
        self.struck.kill()
        self.struck.start()
