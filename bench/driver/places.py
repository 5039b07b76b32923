# SPDX-License-Identifier: MIT
"""The places of a measurement: a single server, one that has a replica, one master of a cluster,
and all of its masters. Owns their lives, and the distribution of names. Independent of what is
measured there.

Usual course: with Places() as places: for place in places: place.empty(); place.url;
place.name(subject, slots)"""
import binascii
import bisect
import collections
import contextlib
import functools
import itertools
import os

import server as servers
from clustered import SLOTS, Clustered
from deployment import SETTLE_LIMIT_S, until
from measure import NAME, own_name
from server import Server

SERVER_NAME = "redis-server"  # the name by which the cluster's nodes are found in PATH
MASTERS = 3
TAG = "{bench}"  # all names that contain it are in one slot
NODE_TIMEOUT_MS = 30000  # no node is to be replaced because the machine is slow
SERVER, REPLICATED, ONE, ALL = ("a single server", "one with a replica",
                                "one master of the cluster", "its three masters")


def use(program):
    """Sets the program of the single servers and of the cluster's nodes."""
    servers.use(program)
    folder, name = os.path.split(program)
    if name != SERVER_NAME:
        raise ValueError("--server: the program's file is to be named " + SERVER_NAME)
    if folder:
        os.environ["PATH"] = os.path.abspath(folder) + os.pathsep + os.environ["PATH"]


def master_of(key, masters):
    """Returns the master of a key without a tag, if all masters have equally many slots."""
    slot = binascii.crc_hqx(key.encode(), 0) % SLOTS
    return bisect.bisect([SLOTS * i // masters for i in range(masters)], slot) - 1


@functools.cache
def even_name(key, slots, masters=MASTERS):
    """Returns a name whose slots, each with its own key, are spread over the masters as evenly
    as possible. `key` is the pattern by which the subject makes a key from a name."""
    for number in itertools.count():
        name = "%s-%d" % (NAME, number)
        made = key.format(name=own_name(name, 0))
        found = collections.Counter(master_of("%s:%d" % (made, i), masters)
                                    for i in range(slots))
        if len(found) == masters and max(found.values()) - min(found.values()) <= 1:
            return name


class Place:
    """A place; `masters` and `replicas` have for each server a function that sends it a command."""

    ca = None

    def __init__(self, label, url, masters, replicas=()):
        self.label, self.url, self.masters, self.replicas = label, url, masters, replicas

    def name(self, subject, slots):
        return even_name(subject.key, slots) if self.label == ALL else NAME + TAG

    def empty(self):
        for ask in self.masters:
            ask("FLUSHALL")

    def cpu_us(self):
        return sum(servers.cpu_us(ask) for ask in self.masters)

    def replica_cpu_us(self):
        return sum(servers.cpu_us(ask) for ask in self.replicas)


class Places(contextlib.ExitStack):
    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.found = list(self._start(stack))
            self.push(stack.pop_all())
        return self

    def __iter__(self):
        return iter(self.found)

    def _start(self, stack):
        for label, replicas in ((SERVER, 0), (REPLICATED, 1)):
            server, links = stack.enter_context(Server()), []
            for _ in range(replicas):
                replica = stack.enter_context(Server(more=server.as_replica()))
                until(lambda: replica.info("replication")["master_link_status"] == "up",
                      SETTLE_LIMIT_S, "a replica has its master")
                links.append(replica.link)
            yield Place(label, server.url(False), [server.link], links)
        self.cluster = Clustered(*servers.ARGUMENTS, timeout=NODE_TIMEOUT_MS)
        stack.callback(self.cluster.stop)
        owner = self.cluster.owner(self.cluster.slot(TAG))
        replica = self.cluster.replicas[self.cluster.masters.index(owner)]
        yield Place(ONE, self.cluster.url, [owner], [replica])
        yield Place(ALL, self.cluster.url, self.cluster.masters, self.cluster.replicas)
