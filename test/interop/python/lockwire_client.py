# SPDX-License-Identifier: MIT
"""A client of lockwire's mutexes on one server, written from scripts/lua/README.md alone. It shows
that the page is complete, and how little such a client needs.

Independent of lockwire's C source. The caller's thread acquires and releases; one thread receives
messages and sends the heartbeat, and one for each lock that is held renews it. A lost connection
ends the process. `scripts` is the folder that `src/embed.py --dump` has written.

Usual course: `lock = Lock(client, name, lease_ms)`, `lock.acquire(wait_ms)`, `lock.release()`.
"""
import os
import pathlib
import queue
import random
import threading
import time
import uuid

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

HEARTBEAT_S = 5


def now():
    """Returns the time in seconds, by a clock that counts suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def deadline_of(sent, span):
    return sent + span - (span / 100 + 0.002)


class Client:
    """Names are whole keys, which begin with the prefix."""

    def __init__(self, path, scripts, claim_ms=2000, prefix=""):
        self.claim_ms, self.count, self.locks = claim_ms, 0, {}
        self.redis = redis.Redis(unix_socket_path=path, decode_responses=True,
                                 retry=Retry(NoBackoff(), 0))
        self.scripts = {file.stem: self.redis.register_script(file.read_text())
                        for file in pathlib.Path(scripts).iterdir()}
        self.uuid = str(uuid.uuid4())
        self.server = self.redis.info("server")["run_id"][:16]
        self.numbers = "%.0f " + self.server
        self.prefix, self.fence = prefix, prefix + "lockwire:fence"
        self.channel = [f"{prefix}lockwire:2: "] if prefix else []  # a script's last argument
        self.nonce = f"{prefix}lockwire:2:{self.uuid}:{random.getrandbits(32):x}"
        self.pubsub = self.redis.pubsub()
        self.pubsub.subscribe(f"{prefix}lockwire:2:{self.uuid}", self.nonce)
        for _ in range(2):
            self.pubsub.get_message(timeout=None)
        self.run("fence_seed", [self.fence])
        self.heartbeat()
        threading.Thread(target=self.listen, daemon=True).start()

    def run(self, script, keys, *words):
        return self.scripts[script](keys=keys, args=words)

    def heartbeat(self):
        self.bound = self.redis.pubsub_numsub(self.nonce)[0][1] == 1
        if not self.redis.pexpire(self.fence, 86400000):
            self.run("fence_seed", [self.fence])

    def listen(self):
        due = now() + HEARTBEAT_S
        try:
            while True:
                message = self.pubsub.get_message(timeout=max(due - now(), 0.001))
                if message:
                    self.deliver(*message["data"].split(" "))
                if now() >= due:
                    self.heartbeat()
                    due = now() + HEARTBEAT_S
        finally:
            os._exit(1)

    def deliver(self, kind, token, *words):
        lock = self.locks.get(token)
        if lock and kind == "v":
            lock.renew()
        elif lock:
            lock.messages.put((kind, *words))
        elif kind == "t":
            self.release(self.keys(" ".join(words[4:])), token)

    def keys(self, name):
        rest = ":" + name if "}" in name else "{" + name + "}"
        return [name, f"{self.prefix}lockwire:2:queue:{rest}", self.fence]

    def release(self, keys, token):
        """Returns True if the token had the lock."""
        reply = self.run("mutex_release", keys, token, self.numbers, *self.channel)
        return bool(reply & 1) | (reply & 2 > 0 and self.release(keys, token))


class Lock:
    """One acquisition. The caller has the lock while now() < deadline."""

    def __init__(self, client, name, lease_ms):
        client.count += 1
        self.client, self.name, self.lease_ms = client, name, lease_ms
        self.window_ms = min(client.claim_ms, lease_ms)
        self.token = f"{client.uuid}:{client.count:023}:{self.window_ms}-"
        self.messages, self.over = queue.Queue(), threading.Event()
        self.deadline = self.renew_at = self.fence = 0

    def acquire(self, wait_ms):
        """Returns True if the lock was granted within wait_ms (-1: any time, 0: at once)."""
        self.client.locks[self.token] = self
        give_up = now() + wait_ms / 1000 if wait_ms >= 0 else float("inf")
        granted = self.attempt() or self.wait(give_up, wait_ms != 0)
        if granted:
            threading.Thread(target=self.keep, daemon=True).start()
        else:
            self.release()
        return granted

    def grant(self, sent, span, fence, renew_at, least):
        """Sets the deadline. Returns False if the grant came too late to be used."""
        if deadline_of(sent, span) - now() <= least:
            return False
        self.deadline, self.fence, self.renew_at = deadline_of(sent, span), fence, renew_at
        return True

    def grant_by_reply(self, sent, fence):
        lease = self.lease_ms / 1000
        return self.grant(sent, lease, fence, sent + lease / 3, 0.001)

    def grant_by_message(self, sent, server_us, fence, server, seconds, us):
        here = now() - sent
        passed = (int(seconds) * 1000000 + int(us) - server_us) / 1000000
        window = self.window_ms / 1000
        return (self.client.bound and server == self.client.server != ""
                and 0 <= passed <= here + here / 100 + 0.002
                and self.grant(sent, passed + window, int(fence), sent + passed + window / 4,
                               window / 4))

    def attempt(self):
        sent = now()
        pipe = self.client.redis.pipeline(transaction=False)
        pipe.set(self.name, self.token, nx=True, px=self.lease_ms).incr(self.client.fence)
        taken, fence = pipe.execute(raise_on_error=False)
        return (taken is True and isinstance(fence, int) and 1 << 50 <= fence < 1 << 53
                and self.grant_by_reply(sent, fence))

    def wait(self, give_up, waits):
        ticket, again = "", True
        while again or (waits and now() < give_up):
            sent, how = now(), "k" if waits and self.client.bound else "n"
            reply = self.client.run("mutex_acquire", self.client.keys(self.name), self.token,
                                    f"{how}f{ticket} {self.client.numbers} {self.lease_ms}",
                                    *self.client.channel)
            if isinstance(reply, int):
                if self.grant_by_reply(sent, reply):
                    return True
                continue
            left_ms, position, server_us, *more = reply.split(" ")
            ticket, again = more[0] if more else server_us, more[1:2] == ["1"]
            due = now() if again else now() + self.poll_delay(int(left_ms), int(position))
            if self.await_message(sent, int(server_us), min(due, give_up)):
                return True
        return False

    def poll_delay(self, left_ms, position):
        remaining = {-1: 9000, -2: self.window_ms}.get(left_ms, left_ms)
        base = min(max(remaining / 3, 50), 3000)
        delay = min(base * (4 if position < 0 else position + 1),
                    3000 if position < 0 else 10000 if position < 100 else 30000)
        if position == 0 and 0 <= left_ms < delay:
            return (left_ms + 1) / 1000
        return delay * random.uniform(0.9, 1.1) / 1000

    def await_message(self, sent, server_us, due):
        """Waits for a message. Returns True if one grants the lock, False when the next poll is
        due."""
        while True:
            try:
                kind, *words = self.messages.get(timeout=max(due - now(), 0))
            except queue.Empty:
                return False
            if kind == "s":
                due = min(due, now() + int(words[0]) / 1000 * random.uniform(1, 1.05) + 0.002)
            elif kind == "t":
                return self.grant_by_message(sent, server_us, *words[:4])

    def keep(self):
        while not self.over.wait(max(self.renew_at - now(), 0)) and self.renew():
            pass

    def renew(self):
        """Renews the lease. Returns False if the server no longer has the lock, which is then
        lost."""
        sent, lease = now(), self.lease_ms / 1000
        if self.client.run("mutex_renew", [self.name], self.token, self.lease_ms) != 1:
            self.deadline = 0
            return False
        self.deadline = max(self.deadline, deadline_of(sent, lease))
        self.renew_at = sent + lease / 3
        return True

    def release(self):
        """Releases the lock or leaves the queue. Returns True if the token had the lock."""
        self.over.set()
        had = self.client.release(self.client.keys(self.name), self.token)
        del self.client.locks[self.token]
        return had
