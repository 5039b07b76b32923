#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Contended rounds: several processes count under one lock; no update may be lost.

Owns the rules of a round and the verdict. In a round every player takes the lock once, reads the
counter file, holds, writes the number plus one, and releases. The rounds alternate: each player
in turn goes first while the others wait for it, and then all start at once. A round counts as
contended if all players had requested the lock before the first of them was done. If some came
late, as they do beside other work, the next holders hold twice as long, up to a quarter of the
foreign lease, and a little shorter after each round that counts. The number of lost updates is the
number of players in all rounds, less the growth of the counter.

A foreign lease is short, because lockwire's polling depends on it. If the machine stalls a peer
past its lease, the peer rightly loses the lock. The server then reports that a key expired, and
the round is void. If a peer's lock is gone although no key expired, the peer was robbed.

With the peer redisson, lockwire's players use LW_REDISSON. With --servers 3 or 5 the players
lock at a majority of that many servers, lockwire's players by its quorum. With --kill a minority
of the servers is dead in the second half.

Usual course: `contend.py --lockwire PROGRAM --cache DIR redis-py` plays 1,000 rounds of two
lockwire processes and redis-py, and reports `0 lost updates`. With --no-lock the rounds run
without the lock, to show that updates are then lost: it fails if none was lost.
"""
import argparse
import collections
import contextlib
import sys
import time

import peers
import private_redis
import toolchain

LOCKWIRE_LEASE_MS = 30000


def is_ours(title):
    return title.startswith("lockwire")


class Tally:
    def __init__(self):
        self.rounds = self.contended = self.void = self.lost = self.robbed = 0
        self.orders = collections.Counter()  # (holder, the holder directly after it)

    def follow(self, results):
        by_value = sorted(results, key=lambda item: item[1][0])
        order = [player.title for player, _ in by_value]
        self.orders.update(zip(order, order[1:]))

    def passages(self, foreign_first):
        """Counts how often the lock went from a peer to lockwire, or from lockwire to a peer."""
        return sum(count for (first, second), count in self.orders.items()
                   if (not is_ours(first)) == foreign_first
                   and is_ours(second) == foreign_first)


class Game:
    def __init__(self, server, players, options):
        self.server = server
        self.players = players
        self.options = options
        self.path = server.directory + "/counter"
        self.prefix = peers.PREFIX + "".join({peers.NAME_PREFIX.get(name, "") for name in options.peers})
        self.tally = Tally()
        self.hold = options.hold  # in ms; longer while players come late

    def start(self, player):
        lease = LOCKWIRE_LEASE_MS if is_ours(player.title) else self.options.lease
        mode = "nolock" if self.options.no_lock else "lock"
        player.send(f"round {self.prefix}counter {lease} {round(self.hold)} "
                    f"{self.path} {mode}")

    def start_all(self, number):
        """Lets each player go first in turn; in the last turn all start at once."""
        turn = number % (len(self.players) + 1)
        players = self.players[turn:] + self.players[:turn]
        if turn < len(self.players) and not self.options.no_lock:
            self.start(players[0])
            players[0].answer("held")
            for player in players[1:]:
                self.start(player)
            return players[1:]
        for player in players:
            self.start(player)
        return players

    def results(self, number):
        for player in self.start_all(number):
            player.answer("held")
        found = []
        for player in self.players:
            value, asked, done, outcome = player.answer("wrote").split()
            found.append((player, (int(value), int(asked), int(done), outcome)))
        return found

    def read_counter(self):
        with open(self.path, encoding="ascii") as counter:
            return int(counter.read())

    def play(self, number):
        before = self.read_counter()
        expired = self.server.info("stats", "expired_keys")
        results = self.results(number)
        lost = len(self.players) - (self.read_counter() - before)
        gone = sum(outcome == "gone" for _, (_, _, _, outcome) in results)
        tally = self.tally
        tally.rounds += 1
        if gone and self.server.info("stats", "expired_keys") > expired:
            tally.void += 1
            return
        tally.robbed += gone
        tally.lost += lost
        if max(asked for _, (_, asked, _, _) in results) < min(
                done for _, (_, _, done, _) in results):
            tally.contended += 1
            tally.follow(results)
            self.hold = max(self.hold * 0.97, self.options.hold)
        else:
            self.hold = max(min(self.hold * 2, self.options.lease / 4), self.options.hold)

    def run(self):
        with open(self.path, "w", encoding="ascii") as counter:
            counter.write(f"{0:020}\n")
        number, enough, kill = 0, self.options.rounds, self.options.kill
        while self.tally.contended < enough and number < 3 * enough:
            if kill and self.tally.contended >= enough // 2:
                self.server.kill_minority()
                kill = False
            self.play(number)
            number += 1


def report(tally, players, seconds):
    print("players: " + ", ".join(player.version for player in players))
    print(f"{tally.rounds} rounds in {seconds:.1f} s, {tally.contended} contended, "
          f"{tally.void} void, {tally.robbed} robbed, {tally.lost} lost updates")
    for (first, second), count in sorted(tally.orders.items()):
        print(f"    {first} then {second}: {count}")


def verdict(tally, options):
    """Returns the reason for a failure, or None."""
    if options.no_lock:
        return None if tally.lost else "without the lock no update was lost"
    if tally.lost or tally.robbed:
        return "the lock does not exclude"
    if tally.contended < options.rounds:
        return "too few rounds counted; is --lease or --hold too short for this machine?"
    for foreign_first, way in ((True, "from a peer to lockwire"),
                               (False, "from lockwire to a peer")):
        if tally.passages(foreign_first) < options.rounds // 20:
            return f"the lock hardly ever went {way}"
    return None


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("peers", nargs="+", choices=[*peers.STRING_PEERS, "redisson", "protocol-py"])
    parser.add_argument("--lockwire", required=True, help="lockwire's peer program")
    parser.add_argument("--cache", required=True, help="where the peers are built")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2, help="of lockwire (2)")
    parser.add_argument("--servers", type=int, default=1, choices=[1, 3, 5],
                        help="more than one: a quorum (1)")
    parser.add_argument("--kill", action="store_true",
                        help="with several servers: kill a minority at half-time")
    parser.add_argument("--lease", type=int, default=300, help="of foreign locks, in ms")
    parser.add_argument("--hold", type=int, default=3,
                        help="how long each holds, in ms, if the others come in time")
    parser.add_argument("--no-lock", action="store_true",
                        help="show that updates are lost then; fails if none is")
    options = parser.parse_args()
    if options.kill and options.servers == 1:
        parser.error("--kill needs several servers")
    return options


def main():
    private_redis.clean_up_when_ended()
    options = parse()
    place = peers.Place(options.lockwire, options.cache)
    with contextlib.ExitStack() as stack:
        redisson = "redisson" in options.peers
        ours = "lockwire-redisson" if redisson else "lockwire"
        server = stack.enter_context(private_redis.PrivateRedis(tcp=redisson)
                                     if options.servers == 1 else
                                     private_redis.PrivateQuorum(options.servers))
        players = []
        try:
            for name in [ours] * options.processes + options.peers:
                player = peers.start(name, server, place)
                stack.callback(player.close)
                players.append(player)
        except toolchain.Missing as missing:
            toolchain.leave(missing)
        game = Game(server, players, options)
        begun = time.monotonic()
        game.run()
        report(game.tally, players, time.monotonic() - begun)
        wrong = verdict(game.tally, options)
        if wrong:
            sys.exit("failed: " + wrong)


if __name__ == "__main__":
    main()
