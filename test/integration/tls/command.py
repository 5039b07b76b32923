#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the command with rediss://: its options, its messages and its exit codes.

Usual course: a server with TLS requires a certificate, and every subcommand connects.
"""
import os
import tempfile
import unittest

from ports import free_port, free_port_with_bus
import guard_record
from resp import RedisError
from support import COMMAND, ToolTest, until
from watched import SERVICE, Sentinel

FILES = os.environ["LOCKWIRE_CERTIFICATES"]


def file(name):
    return os.path.join(FILES, name)


class Secured(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.port = free_port()
        try:
            self.server("CONFIG", "SET", "tls-auth-clients", "yes")
        except RedisError:
            self.skipTest("the server has no TLS")
        for name, value in (("key-file", file("server.key")), ("ca-cert-file", file("ca.pem")),
                            ("cert-file", file("name.pem")), ("port", str(self.port))):
            self.server("CONFIG", "SET", "tls-" + name, value)
        self.environment["LOCKWIRE_URL"] = f"rediss://127.0.0.1:{self.port}"
        self.words = ("--cacert", file("ca.pem"), "--cert", file("client.pem"),
                      "--key", file("client.key"), "--sni", "redis.example")

    def run_(self, *words):
        return self.end_of(self.spawn(COMMAND, *words))

    def test_every_subcommand_gets_in(self):
        code, out, err = self.run_("run", "job", *self.words, "--", "echo", "in")
        self.assertEqual((code, out, err), (0, "in\n", ""))
        said = self.run_("status", "job", *self.words)
        self.assertEqual(said[0], 1, said)
        self.assertIn("job: free\n", said[1])
        said = self.run_("list", *self.words)
        self.assertEqual(said[0], 0, said)
        self.assertEqual(self.run_("break", "job", *self.words)[0], 1)

    def test_valkeys(self):
        said = self.run_("status", "job", "--redis", f"valkeys://127.0.0.1:{self.port}", *self.words)
        self.assertEqual(said[0], 1, said)
        self.assertIn("job: free\n", said[1])

    def test_valkeys_cluster(self):
        port = free_port_with_bus()
        node = self.start("--cluster-enabled", "yes", "--tls-cluster", "yes", *self.tls_lines(port))
        node("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until(lambda: "cluster_state:ok" in node("CLUSTER", "INFO"), "the cluster is up")
        self.assert_runs(f"valkeys-cluster://127.0.0.1:{port}")

    def test_valkeys_sentinel(self):
        port = free_port()
        lines = [f"{option[2:]} {value}" for option, value in zip(*[iter(self.tls_lines(port))] * 2)]
        sentinel = Sentinel(self.port, "tls-replication yes", *lines)
        self.addCleanup(sentinel.stop)
        self.assert_runs(f"valkeys-sentinel://127.0.0.1:{port}/{SERVICE}")

    def test_a_quorum(self):
        """Tolerates one refused certificate; two are a refusal, one and a dead server an outage."""
        servers, hosts = [self.redis() for _ in range(3)], []
        for server in servers:
            port = free_port()
            server.kill()
            server.start(*self.tls_lines(port))
            guard_record.open_now(server)
            hosts.append(f"127.0.0.1:{port}")
        for scheme in "rediss", "valkeys":
            url = f"{scheme}-quorum://{','.join(hosts)}"
            said = self.run_("run", "job", "--redis", url, *self.words, "--", COMMAND, "status", "job",
                             "--redis", url, *self.words)
            self.assertEqual(said[0], 0, said)
            self.assertRegex(said[1], "^job: held at [23] of 3 servers\n")
        words = ("run", "job", "--wait", "0", "--redis", url, *self.words, "--", "echo", "in")
        servers[0]("CONFIG", "SET", "tls-cert-file", file("server.pem"))
        self.assertEqual(self.run_(*words)[:2], (0, "in\n"))
        servers[1]("CONFIG", "SET", "tls-cert-file", file("server.pem"))
        said = self.run_(*words)
        self.assertEqual(said[0], 77, said)
        last = said[2].splitlines()[-1]
        self.assertEqual(last.count("the certificate is refused"), 2, said)
        for host in hosts:
            self.assertIn(host, last)
        servers[1]("CONFIG", "SET", "tls-cert-file", file("name.pem"))
        servers[2].kill()
        said = self.run_(*words)
        self.assertEqual(said[0], 69, said)
        self.assertIn("the certificate is refused", said[2])

    def assert_runs(self, url):
        said = self.run_("run", "job", "--redis", url, *self.words, "--", COMMAND, "status", "job",
                         "--redis", url, *self.words)
        self.assertEqual((said[0], said[1].splitlines()[:1]), (0, ["job: 1 holder"]), said)

    def start(self, *more):
        """Restarts the server of setUp, on a unix socket, with these arguments. Returns it."""
        self.server.kill()
        self.server.start(*more)
        return self.server

    @staticmethod
    def tls_lines(port):
        return ("--tls-port", str(port), "--tls-key-file", file("server.key"), "--tls-ca-cert-file",
                file("ca.pem"), "--tls-cert-file", file("name.pem"), "--tls-auth-clients", "yes")

    def test_what_is_refused_is_told(self):
        for words, code, told in (
                (self.words[:-2], 77, "IP address mismatch (127.0.0.1)"),
                (self.words[2:], 77, "certificate is refused"),
                (("--cacert", file("nowhere")), 64, "nowhere: No such file"),
                (self.words[:2] + self.words[6:], 77, "certificate required")):
            said = self.run_("status", "job", *words)
            self.assertEqual(said[0], code, said)
            self.assertIn(told, said[2])

    def test_what_the_machine_wants_of_tls_is_kept(self):
        self.server("CONFIG", "SET", "tls-protocols", "TLSv1.2")
        self.assertEqual(self.run_("status", "job", *self.words)[0], 1)
        with tempfile.NamedTemporaryFile("w") as wishes:
            wishes.write("openssl_conf = all\n[all]\nssl_conf = ssl\n"
                         "[ssl]\nsystem_default = min\n[min]\nMinProtocol = TLSv1.3\n")
            wishes.flush()
            self.environment["OPENSSL_CONF"] = wishes.name
            said = self.run_("status", "job", *self.words)
        self.assertEqual(said[0], 77, said)
        self.assertIn("protocol version", said[2])


if __name__ == "__main__":
    unittest.main()
