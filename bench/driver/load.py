# SPDX-License-Identifier: MIT
"""Workload G: the example gateway under wrk. With the lock (a gift to a new user each time, done
at once), the same without it (--unlocked), and the gateway's own cost (/healthz). wrk sends the
next request as soon as it has the answer, so that its latencies are those of a loaded daemon,
not of a given rate. Independent of repeats.

Usual course: run(case, subject, unix) returns a dict of figures."""
import json
import os
import shutil
import subprocess
import tempfile
import time

from held import cpu_us
from measure import Failed
from server import Server

PORT_LIMIT_S = 20
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gateway.lua")


def missing():
    return None if shutil.which("wrk") else "wrk is not installed"


def _port(path, process):
    end = time.monotonic() + PORT_LIMIT_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with open(path) as file:
                text = file.read().strip()
            if text:
                return int(text)
        except OSError:
            pass
        time.sleep(0.01)
    raise Failed("the gateway does not listen (it ended with %s)" % process.poll())


def _wrk(case, subject, port, seconds):
    request = "healthz" if subject.variant == "healthz" else "gift"
    done = subprocess.run(
        ["wrk", "-t1", "-c%d" % case.size, "-d%.0fs" % max(1, seconds), "-s", SCRIPT,
         "http://127.0.0.1:%d" % port],
        env=dict(os.environ, BENCH_REQUEST=request), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    last = done.stdout.decode().strip().splitlines()[-1:]
    if done.returncode or not last or not last[0].startswith("{"):
        raise Failed("wrk: %s" % (last or done.returncode))
    return json.loads(last[0])


def run(case, subject, unix):
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        port_file = os.path.join(folder, "port")
        gateway = subprocess.Popen(
            subject.command + ["--ledger", os.path.join(folder, "ledger"), "--listen",
                               "127.0.0.1:0", "--port-file", port_file, "--redis",
                               server.url(unix), "--work", "0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = _port(port_file, gateway)
            served, used = server.cpu_us(), cpu_us(gateway.pid)
            said = _wrk(case, subject, port, case.seconds_of(subject))
            served, used = server.cpu_us() - served, cpu_us(gateway.pid) - used
        finally:
            gateway.kill()
            gateway.wait()
    requests = said["requests"]
    return {"grants": requests, "rate": requests * 1e6 / said["duration_us"],
            "request_p50_us": said["p50_us"], "request_p99_us": said["p99_us"],
            "request_max_us": said["max_us"], "errors": said["errors"],
            "client_cpu_us": used / requests if requests else None,
            "server_cpu_us": served / requests if requests else None}
