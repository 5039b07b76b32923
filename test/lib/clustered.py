# SPDX-License-Identifier: MIT
"""A Redis Cluster for tests of the command and of the gateway, and for the bench: masters with
one replica each. Owns their processes, and the moves of slots. Independent of what is tested.

The nodes need no introduction: each finds all nodes, and the owners of all slots, in the file where
a node stores what it knows. Sockets that are bound but do not listen reserve the ports, so that no
other program gets the port of a node that is down.

Usual course: cluster = Clustered(); a client of cluster.url; cluster.move(cluster.slot("name"),
cluster.nodes[1]), cluster.kill(node) or cluster.fail_over(replica); cluster.stop().
"""
import functools
import os
import re
import shutil
import subprocess
import tempfile

from ports import BUS, keep_with_bus
from resp import RedisError
from support import LIMIT, Redis, until

SLOTS = 16384


@functools.lru_cache
def has_shards():
    """Returns true if a node's file must name its shard: a server of Redis 7.2 or later crashes
    at the first SPUBLISH without it."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    told = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    return tuple(map(int, re.search(r"v=(\d+)\.(\d+)", told.stdout).groups())) >= (7, 2)


class Node(Redis):
    """`number` makes its id, by which the other nodes know it."""

    def __init__(self, number, *more, under=()):  # Redis' would start it before its file exists
        self.folder = tempfile.mkdtemp(prefix="lockwire-test-")
        self.socket = os.path.join(self.folder, "s")
        self.process = None
        self.keepers = keep_with_bus()
        self.port = self.keepers[0].getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.id = f"{number:040x}"
        self.more, self.under = more, under
        self.running = False

    def line(self, shard, flags, rest):
        """Returns this node's line for its own file or another node's."""
        shard = f",,shard-id={shard.id}" if has_shards() else ""
        return f"{self.id} {self.address}@{self.port + BUS}{shard} {flags} 0 0 {rest}\n"

    def write(self, lines):
        with open(os.path.join(self.folder, "nodes.conf"), "w", encoding="ascii") as file:
            file.write(lines)

    def start(self):
        super().start("--port", str(self.port), "--bind", "127.0.0.1",
                      "--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0", *self.more,
                      under=self.under)
        self.running = True

    def says(self, section, field):
        text = self("CLUSTER", "INFO") if section == "cluster" else self("INFO", section)
        return dict(line.split(":", 1) for line in text.splitlines()
                    if ":" in line).get(field)

    def owner(self, slot):
        """Returns the id of the slot's master according to this node, or None."""
        for first, last, master, *_ in self("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return master[2]
        return None

    def view(self):
        """Yields, for each known node, the fields on which all nodes can agree. Leaves out the
        address, times, the flag `myself` and slots that move."""
        for line in self("CLUSTER", "NODES").splitlines():
            name, _, flags, master, _, _, epoch, link, *slots = line.split()
            yield (name, flags.replace("myself,", ""), master, epoch, link,
                   *(slot for slot in slots if slot[0] != "["))

    def kill(self):
        self.running = False
        super().kill()

    def stop(self):
        if self.process:
            self.kill()
        for keeper in self.keepers:
            keeper.close()
        shutil.rmtree(self.folder)


class Clustered:
    """`timeout`: the others declare a node down after that many ms of silence, which a machine that
    stands still does not reach. `more`: further arguments of redis-server. `under`: by the index of a node, the command that runs it."""

    def __init__(self, *more, masters=3, replicas=3, timeout=5000, under=None):
        more = ("--cluster-node-timeout", str(timeout), *more)
        self.nodes = [Node(i + 1, *more, under=(under or {}).get(i, ()))
                      for i in range(masters + replicas)]
        self.masters, self.replicas = self.nodes[:masters], self.nodes[masters:]
        self.url = "redis-cluster://" + ",".join(node.address for node in self.nodes)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        for me in self.nodes:
            me.write("".join(self.line_of(i, node is me) for i, node in enumerate(self.nodes))
                     + f"vars currentEpoch {len(self.masters)} lastVoteEpoch 0\n")
            me.start()
        self.until_well()

    def line_of(self, i, is_me):
        myself = "myself," if is_me else ""
        count = len(self.masters)
        master = self.masters[i % count]
        if i >= count:
            return self.nodes[i].line(master, f"{myself}slave {master.id}",
                                      f"{i % count + 1} connected")
        first, last = SLOTS * i // count, SLOTS * (i + 1) // count - 1
        return master.line(master, f"{myself}master -", f"{i + 1} connected {first}-{last}")

    @property
    def is_sharded(self):
        """False before Redis 7: a node has no channels of slots, so that waiters poll and no holder
        is asked to yield."""
        return self.running[0]("COMMAND", "INFO", "SPUBLISH")[0] is not None

    @property
    def running(self):
        return [node for node in self.nodes if node.running]

    def agree(self):
        """Returns true if all running nodes agree on roles, slots and links."""
        return len({frozenset(node.view()) for node in self.running}) == 1

    def until_well(self):
        """Waits until all running nodes agree and report ok, and each replica has its master."""
        until(self.agree, "all agree")
        for node in self.running:
            until(lambda node=node: node.says("cluster", "cluster_state") == "ok",
                  "a node calls the cluster well")
            until(lambda node=node: node.says("replication", "role") == "master"
                  or node.says("replication", "master_link_status") == "up",
                  "a replica has its master")

    def slot(self, key):
        return self.running[0]("CLUSTER", "KEYSLOT", key)

    def by_id(self, name):
        return next(node for node in self.nodes if node.id == name)

    def owner(self, slot):
        """Returns the slot's master as soon as all running nodes agree on it."""
        def agreed():
            said = {node.owner(slot) for node in self.running}
            return said.pop() if len(said) == 1 else None
        return self.by_id(until(agreed, f"all agree whose slot {slot} is"))

    def begin(self, slot, to):
        """Begins a move: until end() clients that ask for a missing key are redirected to `to`."""
        owner = self.owner(slot)
        to("CLUSTER", "SETSLOT", slot, "IMPORTING", owner.id)
        owner("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)

    def carry(self, slot, to, *keys):
        """Moves these keys of the slot, or all of them."""
        owner = self.owner(slot)
        keys = keys or owner("CLUSTER", "GETKEYSINSLOT", slot, 100000)
        if keys:
            owner("MIGRATE", "127.0.0.1", to.port, "", 0, LIMIT * 1000, "KEYS", *keys)

    def end(self, slot, to):
        """Makes `to` the owner: informs it first, the old owner next, so that one always exists."""
        owner = self.owner(slot)
        for node in (to, owner, *self.running):
            try:
                node("CLUSTER", "SETSLOT", slot, "NODE", to.id)
            except RedisError as error:
                if "only with masters" not in str(error):
                    raise  # otherwise the node has just become a replica
        # Else the next move might begin before all know of this one: two would claim one epoch.
        until(lambda: self.owner(slot) is to and self.agree(), "the slot has moved")

    def move(self, slot, to):
        self.begin(slot, to)
        self.carry(slot, to)
        self.end(slot, to)

    def fail_over(self, replica, *how):
        """Promotes a replica by command: `how` is FORCE, TAKEOVER or nothing."""
        if not how:
            self.until_well()  # a master does not agree to a replica that it does not know
        replica("CLUSTER", "FAILOVER", *how)
        until(lambda: replica.says("replication", "role") == "master", "it is the master")
        self.until_well()

    def kill(self, node):
        """Kills the node. The others declare it down after a second."""
        node.kill()
        for other in self.running:
            other("CONFIG", "SET", "cluster-node-timeout", 1000)

    def stop(self):
        for node in self.nodes:
            node.stop()
