# SPDX-License-Identifier: MIT
"""The workloads, for peers that are used from threads. Owns the command line, the threads and
the rows. Independent of the lock.

    PROGRAM U|D|L|N|H|X|F --url URL [--slots N] [--seconds S] [--name KEY] [--variant V]
            [--retry-ms MS] [--lease-ms MS] [--hold-us US] [--pause-us US]
            [--rows FILE]

Usual course: a peer calls main() with a function that makes a lock of a name. Each slot is a
thread that acquires and releases. The rows (slot, asked, granted, released, done: 64-bit ns of
CLOCK_MONOTONIC) and one line of JSON are written at the end.
"""
import argparse
import array
import ctypes
import json
import os
import random
import signal
import sys
import threading
import time


def read_options(variants):
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=list("UDLNHXF"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--name", default="bench")
    parser.add_argument("--variant", choices=variants, default=variants[0])
    parser.add_argument("--retry-ms", type=int, default=0, help="0: the peer's default")
    parser.add_argument("--lease-ms", type=int, default=30000)
    parser.add_argument("--hold-us", type=int, default=0)
    parser.add_argument("--pause-us", type=int, default=0,
                        help="mean time before a slot asks again")
    parser.add_argument("--rows")
    options = parser.parse_args()
    options.renewed = options.workload == "H"
    return options


def say(**line):
    print(json.dumps(line), flush=True)


class Slot(threading.Thread):
    """A slot: a thread that acquires and releases locks."""

    def __init__(self, run, number):
        super().__init__(daemon=True)
        self.run_, self.number = run, number
        self.rows = array.array("q")
        self.asked = self.granted = 0
        self.errors = 0

    def once(self, name):
        options = self.run_.options
        lock = self.run_.make_lock(options, name)
        self.granted = 0
        self.asked = time.monotonic_ns()
        lock.acquire()
        self.granted = time.monotonic_ns()
        if options.hold_us:
            time.sleep(options.hold_us / 1e6)
        released = time.monotonic_ns()
        lock.release()
        row = (self.number, self.asked, self.granted, released, time.monotonic_ns())
        self.asked = 0
        return row

    def run(self):
        options = self.run_.options
        name = options.name
        if options.workload == "U":
            name += ":%d" % self.number
        self.run_.started.wait()
        while not self.run_.over.is_set():
            try:
                self.rows.extend(self.once(name))
            except Exception as error:  # the peer's own, of any type
                self.errors += 1
                self.run_.last_error = repr(error)
                if self.errors > 100:
                    break
            if options.workload == "D":
                break
            if options.pause_us:
                time.sleep(options.pause_us / 1e6 * random.uniform(0.5, 1.5))
        self.run_.ended()


class Run:
    def __init__(self, options, make_lock):
        self.options, self.make_lock = options, make_lock
        self.started, self.over = threading.Event(), threading.Event()
        self.mutex, self.left = threading.Lock(), options.slots
        self.last_error = None
        self.slots = [Slot(self, i) for i in range(options.slots)]

    def ended(self):
        with self.mutex:
            self.left -= 1
            if self.left == 0:
                self.over.set()

    def rows(self):
        rows = array.array("q")
        for slot in self.slots:
            rows.extend(slot.rows)
            if slot.asked:
                rows.extend((slot.number, slot.asked, slot.granted, 0, 0))
        return rows


def hold(options, make_lock):
    """Holds one lock (X) or many (H) until standard input ends."""
    say(ready=1)
    sys.stdin.readline()
    if options.workload == "X":
        lock = make_lock(options, options.name)
        lock.acquire()
        say(granted_us=time.time_ns() // 1000)
    else:
        locks = [make_lock(options, "%s:%d" % (options.name, i)) for i in range(options.slots)]
        for lock in locks:
            lock.acquire()
        say(held=len(locks))
    sys.stdin.read()
    os._exit(0)


def take(options, make_lock, number):
    """Acquires and releases one lock with its own name, and prints the failure if there is one."""
    try:
        lock = make_lock(options, "%s:%d" % (options.name, number))
        lock.acquire()
        say(granted_ns=time.monotonic_ns())
        lock.release()
    except Exception as error:  # the peer's own, of any type
        say(failed=repr(error))


def fail_over(options, make_lock, version):
    """F: holds one lock, and takes others one after the other, until standard input ends."""
    say(ready=1, version=version)
    sys.stdin.readline()
    held = make_lock(options, options.name)
    held.acquire()
    say(held=1)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    number = 0
    while True:
        take(options, make_lock, number)
        number += 1
        time.sleep(options.pause_us / 1e6 * random.uniform(0.5, 1.5))


def main(version, make_lock, variants=("default",)):
    options = read_options(variants)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the driver
    threading.stack_size(256 * 1024)
    if options.workload in "HX":
        hold(options, make_lock)
    if options.workload == "F":
        fail_over(options, make_lock, version)
    run = Run(options, make_lock)
    for i in range(20):  # opens connections, loads scripts
        lock = make_lock(options, "%s:warm:%d" % (options.name, os.getpid()))
        lock.acquire()
        lock.release()
    for slot in run.slots:
        slot.start()
    say(ready=1)
    if not sys.stdin.readline():
        sys.exit(1)
    start, cpu = time.monotonic_ns(), time.process_time_ns()
    run.started.set()
    run.over.wait(options.seconds)
    cpu, end = time.process_time_ns() - cpu, time.monotonic_ns()
    run.over.set()
    rows = run.rows()
    if options.rows:
        with open(options.rows, "wb") as file:
            rows.tofile(file)
    if run.last_error:
        print("last error: " + run.last_error, file=sys.stderr)
    say(workload=options.workload, variant=options.variant, slots=options.slots,
        start_ns=start, seconds=(end - start) / 1e9, cpu_us=cpu // 1000,
        rows=len(rows) // 5, errors=sum(slot.errors for slot in run.slots), version=version)
    sys.stdout.flush()
    os._exit(0)
