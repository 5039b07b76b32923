#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The cause of a failure, as the command reports it: message, exit code, and how soon.

A table of causes, played at each address family and with --wait 0, 2s and forever. A permanent
failure ends every wait at once. Any other failure ends a wait of 0 at once and a wait of 2s
after that time, and a wait forever goes on. Times have upper limits only, so that a slow machine
passes.

Servers are real ones if a real one can be brought to the failure, else a Stub, whose answers a
function chooses.
"""
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest

from ports import free_port, keep
from support import COMMAND, ToolTest, until

CERTIFICATES = os.environ.get("LOCKWIRE_CERTIFICATES") # set if the command has TLS
NO_CONNECTION = "cannot lock 'x': no connection to the server: "
NOT_NOW = "cannot lock 'x': the server cannot process the request now: "
INFO = "# Server\r\nrun_id:" + "a" * 40 + "\r\narch_bits:64\r\n"


def error(text):
    return f"-{text}\r\n".encode()


def bulk(text):
    return f"${len(text)}\r\n{text}\r\n".encode()


def slots(*ranges):
    """Returns a reply of CLUSTER SLOTS. Each range is (first, last, port)."""
    out = f"*{len(ranges)}\r\n"
    for number, (first, last, port) in enumerate(ranges):
        node = chr(ord("a") + number) * 40
        out += (f"*3\r\n:{first}\r\n:{last}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n"
                f"$40\r\n{node}\r\n")
    return out.encode()


class Stub:
    """A server that replies with `answer(words)`. None: it closes the connection; b"": it sends
    nothing, nor any later reply, which would be taken for the one that is missing."""

    def __init__(self, host, answer):
        self.answer = answer
        self.keeper = None
        while self.keeper is None: # so that no other server has this port of "localhost"
            self.listener = socket.create_server(
                (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
            self.port = self.listener.getsockname()[1]
            self.keeper = keep(self.port, "127.0.0.1" if ":" in host else "::1")
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.keeper.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            silent = False
            try:
                while header := stream.readline():
                    words = []
                    if header[:1] != b"*": # such as a TLS handshake
                        connection.sendall(error("ERR unknown command"))
                        return
                    for _ in range(int(header[1:])):
                        size = int(stream.readline()[1:])
                        words.append(stream.read(size + 2)[:-2].decode(errors="replace"))
                    answer = self.answer([words[0].upper()] + words[1:])
                    if answer is None:
                        return
                    silent = silent or not answer
                    if not silent:
                        connection.sendall(answer)
            except OSError:
                pass


def greets(otherwise):
    """Returns the function of a server that greets normally, and replies `otherwise` to all
    other commands."""
    def answer(words):
        if words[0] == "AUTH" or words[:2] == ["CLIENT", "SETNAME"]:
            return b"+OK\r\n"
        if words[:2] == ["CLIENT", "ID"]:
            return b":7\r\n"
        if words[0] == "INFO":
            return bulk(INFO)
        return otherwise(words)
    return answer


class CauseTest(ToolTest):
    def end(self, *words, **more):
        """Returns the exit code and the messages of the command, which must end."""
        code, _, err = self.end_of(self.spawn(COMMAND, *words, **more))
        return code, err

    def line_with(self, said, stream):
        while said not in (line := self.line_of(stream)):
            self.assertTrue(line, f"it has ended without {said}")

    def for_good(self, code, said, url, lines=1):
        """Checks that each wait of each subcommand ends, with this number of lines, also one that
        is forever."""
        for wait in ("0", "2s", "forever"):
            got, err = self.end("run", "x", "--wait", wait, "--redis", url, "--", "true")
            self.assertEqual(got, code, f"{url} {wait}: {err}")
            self.assertIn(said, err)
            self.assertEqual(err.count("\n"), lines, err)
        for words in (("status", "x"), ("list",), ("yield", "x"), ("break", "x"), ("watch", "x")):
            got, err = self.end(*words, "--redis", url)
            self.assertEqual(got, code, f"{url} {words}: {err}")
            self.assertIn(said, err)

    def for_now(self, code, said, url, begins=None, logged=True):
        """Checks that a wait of 0 and one of 2s end with this failure, and that a wait forever
        goes on. `begins` is the beginning of the last line. `logged`: the cause is also reported
        at once."""
        for wait in ("0", "2s"):
            got, err = self.end("run", "x", "--wait", wait, "--redis", url, "--", "true")
            self.assertEqual(got, code, f"{url} {wait}: {err}")
            self.assertIn(said, err.splitlines()[-1])
            if begins:
                self.assertTrue(err.splitlines()[-1].startswith(f"lockwire: {begins}"), err)
        if not logged:
            return
        waiting = self.spawn(COMMAND, "run", "x", "--redis", url, "--", "true")
        while said not in self.line_of(waiting.stderr):
            self.assertIsNone(waiting.poll())
        waiting.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(waiting)[0], 128 + signal.SIGTERM)

    def stub(self, answer, host="127.0.0.1"):
        try:
            stub = Stub(host, answer)
        except OSError:
            self.skipTest(f"no address {host} on this machine")
        self.addCleanup(stub.close)
        return stub

    def families(self, answer):
        """Yields the URL's host and port of such a server at each address family, and under a
        name with a further address at which no server listens."""
        yield f"127.0.0.1:{self.stub(answer).port}"
        yield f"localhost:{self.stub(answer).port}"
        if socket.has_ipv6:
            try:
                stub = Stub("::1", answer)
            except OSError:
                return
            self.addCleanup(stub.close)
            yield f"[::1]:{stub.port}"
            yield f"localhost:{stub.port}"


class Login(CauseTest):
    """A refusal counts, whichever address of a name is tried first, and whatever the other
    addresses answer."""

    def test_a_wrong_password(self):
        for place in self.families(lambda words: error("WRONGPASS invalid pair")):
            self.for_good(77, "the server rejected the connection: AUTH: WRONGPASS",
                          f"redis://anna:wrong@{place}")

    def test_no_password(self):
        for place in self.families(lambda words: error("NOAUTH Authentication required.")):
            self.for_good(77, "the server rejected the connection: CLIENT SETNAME: NOAUTH",
                          f"redis://{place}")

    def test_an_unknown_database(self):
        answer = greets(lambda words: error("ERR DB index is out of range"))
        for place in self.families(answer):
            self.for_good(77, "the server rejected the connection: SELECT: ERR DB index",
                          f"redis://{place}/99")

    def test_a_real_server_at_one_of_two_addresses(self):
        server = self.redis()
        port = server.listen()
        server("CONFIG", "SET", "requirepass", "right")
        self.for_good(77, "AUTH: WRONGPASS", f"redis://:wrong@localhost:{port}")
        self.for_good(77, "NOAUTH", f"redis://localhost:{port}")


class Away(CauseTest):
    """There is no server, or it cannot serve any lock now, but may later."""

    def test_nothing_listens(self):
        for host in ("127.0.0.1", "localhost"):
            self.for_now(69, "Connection refused", f"redis://{host}:{free_port()}",
                         NO_CONNECTION + "connecting to ")

    def test_a_black_hole(self):
        """The queue of the listener is full: the kernel does not answer a further connection."""
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            place = full.getsockname()
            fillers = []
            for _ in range(4):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(place)
                fillers.append(filler)
            for wait in ("300ms", "2s"): # both end before the first attempt does
                code, err = self.end("run", "x", "--wait", wait, "--redis",
                                     f"redis://127.0.0.1:{place[1]}", "--", "true")
                self.assertEqual(code, 69, err)
                self.assertIn(f"{NO_CONNECTION}no connection to "
                              f"127.0.0.1:{place[1]} yet", err)
            for filler in fillers:
                filler.close()

    def test_a_server_that_says_nothing(self):
        place = f"127.0.0.1:{self.stub(lambda words: b'').port}"
        code, err = self.end("run", "x", "--wait", "1s", "--redis", f"redis://{place}", "--",
                             "true")
        self.assertEqual(code, 69, err)
        self.assertIn(f"no reply from {place} yet", err)

    def silent(self):
        """Returns the URL of a server that greets, and replies to no request."""
        def otherwise(words):
            if words[0] in ("CONFIG", "COMMAND"):
                return b"*0\r\n"
            if words[0] in ("PUBLISH", "EVAL", "EVALSHA") and "x" not in words:
                return f":{1 << 51}\r\n".encode()
            return b"$-1\r\n" if words[:2] == ["GET", "lockwire:guard"] else b""
        return f"redis://127.0.0.1:{self.stub(greets(otherwise)).port}"

    def test_a_server_that_falls_silent(self):
        """A server without a reply is not reported as a busy lock."""
        for wait in ("0", "1s"):
            code, err = self.end("run", "x", "--wait", wait, "--redis", self.silent(), "--",
                                 "true")
            self.assertEqual(code, 69, err)
            self.assertIn(NOT_NOW + "no reply in time", err)

    def test_a_single_try_at_a_silent_server_has_one_limit(self):
        """A single try ends as soon as its message is written. Any other wait gives the server one
        more second to take back a grant. The two are compared, and whoever was not even connected
        in time is asked again, so that the speed of the machine does not matter."""
        def after_message(wait):
            process = self.spawn(COMMAND, "run", "x", "--wait", wait, "--redis", self.silent(),
                                 "--", "true")
            began, lines = None, []
            while line := self.line_of(process.stderr):
                lines.append(line)
                if "no reply in time" in line:
                    began = time.monotonic()
            self.assertEqual(self.end_of(process)[0], 69, lines)
            return lines if began is None else time.monotonic() - began
        tried = []
        while len(tried) < 10:
            tried.append((after_message("0"), after_message("1s")))
            if list not in map(type, tried[-1]) and tried[-1][0] < tried[-1][1] - 0.5:
                return
        self.fail(tried)

    def test_loading(self):
        for place in self.families(lambda words: error("LOADING Redis is loading")):
            self.for_now(69, "LOADING", f"redis://{place}",
                         "cannot lock 'x': the server is loading its data: ")

    def test_a_proxy_without_CLIENT(self):
        self.for_now(69, "connection closed at once (by a TLS server? try rediss:// or "
                         "valkeys://; or by a proxy without CLIENT?)", f"redis://127.0.0.1:{self.stub(lambda words: None).port}")
        proxy = self.stub(lambda words: b"+OK\r\n" if words[0] == "AUTH" else None)
        self.for_now(69, "closed the connection at CLIENT SETNAME (a proxy that does not "
                         "support this command?)",
                     f"redis://:any@127.0.0.1:{proxy.port}")

    def test_a_replica(self):
        server = self.redis()
        server("REPLICAOF", "127.0.0.1", free_port())
        self.for_now(69, "READONLY", server.url)
        server("CONFIG", "SET", "replica-serve-stale-data", "no")
        self.for_now(69, "MASTERDOWN", server.url)

    def test_no_more_descriptors(self):
        server = self.redis()
        port = server.listen()
        for descriptors in range(5, 20):
            def limit(number=descriptors):
                resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))
            code, err = self.end(
                "run", "x", "--redis", f"redis://127.0.0.1:{port}", "--", "true",
                preexec_fn=limit, # a sanitizer cannot look for leaks under it
                env={"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"})
            if code == 0:
                break
            self.assertEqual(code, 71, err)
        else:
            self.fail(f"{descriptors} descriptors are not enough: {err}")


class TlsStub(Stub):
    """A Stub behind TLS, with this certificate. `wants`: it requires a certificate of the
    client."""

    def __init__(self, host, answer, certificate, wants):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(os.path.join(CERTIFICATES, certificate + ".pem"),
                                     os.path.join(CERTIFICATES, "server.key"))
        if wants:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(os.path.join(CERTIFICATES, "ca.pem"))
        super().__init__(host, answer)

    def serve(self, connection):
        try:
            secured = self.context.wrap_socket(connection, server_side=True)
        except OSError: # the errors of ssl are OSErrors
            connection.close()
            return
        super().serve(secured)


@unittest.skipUnless(CERTIFICATES, "the build has no TLS")
class Tls(CauseTest):
    """A certificate that one side does not accept is refused like a password."""

    def setUp(self):
        super().setUp()
        self.environment["SSL_CERT_FILE"] = os.path.join(CERTIFICATES, "ca.pem")
        self.environment["SSL_CERT_DIR"] = self.folder

    def secured(self, certificate, wants=False):
        """Yields places as families() does."""
        def stub(host):
            made = TlsStub(host, greets(lambda words: b""), certificate, wants)
            self.addCleanup(made.close)
            return made.port
        yield f"127.0.0.1:{stub('127.0.0.1')}"
        yield f"localhost:{stub('127.0.0.1')}"
        if socket.has_ipv6:
            try:
                port = stub("::1")
            except OSError:
                return
            yield f"[::1]:{port}"
            yield f"localhost:{port}"

    def test_a_certificate_that_is_not_accepted(self):
        for certificate, why in (
                ("renewed", "unable to get local issuer certificate"),
                ("name", "mismatch"), ("expired", "certificate has expired"),
                ("purpose", "purpose")):
            for place in self.secured(certificate):
                self.for_good(77, why, f"rediss://{place}")

    def test_a_certificate_that_is_not_valid_yet(self):
        """A machine that has just started may not have set its clock yet."""
        for place in self.secured("early"):
            self.for_now(69, "certificate is not yet valid", f"rediss://{place}")

    def test_the_server_wants_a_certificate(self):
        for place in self.secured("server", wants=True):
            self.for_good(77, "certificate required", f"rediss://{place}")

    def test_sentinels_and_nodes_of_a_cluster(self):
        for scheme, path, lines in (("rediss-sentinel", "/mymaster", 2), # each is reported, too
                                    ("rediss-cluster", "", 1)):
            place = next(self.secured("renewed"))
            self.for_good(77, "the certificate is refused", f"{scheme}://{place}{path}", lines)
            self.for_now(69, "the certificate is refused",
                         f"{scheme}://{place},127.0.0.1:{free_port()}{path}")

    def test_no_tls_there(self):
        for place in self.families(lambda words: None):
            self.for_now(69, "TLS", f"rediss://{place}", NO_CONNECTION)

    def test_a_handshake_without_a_reply(self):
        """The kernel accepts the connection, and the wait ends before the attempt fails."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            code, err = self.end("run", "x", "--wait", "300ms", "--redis",
                                 f"rediss://127.0.0.1:{port}", "--", "true")
            self.assertEqual(code, 69, err)
            self.assertIn(NO_CONNECTION + "no TLS connection to "
                          f"127.0.0.1:{port} yet", err)

    def test_tls_there(self):
        for place in self.secured("server"):
            self.for_now(69, "rediss://", f"redis://{place}", NO_CONNECTION)


class Cluster(CauseTest):
    """An error about a slot from a cluster's node is never a refusal."""

    def nodes(self, answer):
        """Starts two stubs that share the slots. `answer` gets the words and the other stub's
        port."""
        ports = []
        def of(own):
            def otherwise(words):
                if words[:2] == ["CLUSTER", "SLOTS"]:
                    return slots((0, 8191, ports[0]), (8192, 16383, ports[1]))
                if words[0] in ("CONFIG", "COMMAND"):
                    return b"*0\r\n"
                if words[0] == "ASKING":
                    return b"+OK\r\n"
                return answer(words, ports[1 - own])
            return greets(otherwise)
        for own in (0, 1):
            ports.append(self.stub(of(own)).port)
        return f"redis-cluster://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"

    def test_a_slot_that_is_sent_to_and_fro(self):
        self.for_now(69, "too many redirects", self.nodes(
            lambda words, other: error(f"MOVED 16287 127.0.0.1:{other}")))

    def test_a_slot_that_moves_without_an_end(self):
        self.for_now(69, "too many redirects", self.nodes(
            lambda words, other: error(f"ASK 16287 127.0.0.1:{other}")), logged=False)

    def test_a_slot_that_is_nobody_s(self):
        for text, state in (
                ("CLUSTERDOWN Hash slot not served", "the cluster is down"),
                ("CLUSTERDOWN The cluster is down", "the cluster is down"),
                ("TRYAGAIN Multiple keys request during rehashing of slot",
                 "the slot of the name is moving")):
            self.for_now(69, text, self.nodes(lambda words, other, text=text: error(text)),
                         f"cannot lock 'x': {state}: ", logged=False)

    def test_the_node_of_the_name_is_away(self):
        """The slot of x is in the upper half."""
        dead = free_port()
        alive = []
        def otherwise(words):
            if words[:2] == ["CLUSTER", "SLOTS"]:
                return slots((0, 8191, alive[0]), (8192, 16383, dead))
            return b"*0\r\n"
        alive.append(self.stub(greets(otherwise)).port)
        self.for_now(69, "Connection refused", f"redis-cluster://127.0.0.1:{alive[0]}")

    def test_the_node_of_the_name_refuses_the_connection(self):
        """The link is up, and each subcommand has the same code all the same."""
        refusing = self.stub(lambda words: error("NOAUTH Authentication required."))
        alive = []
        def otherwise(words):
            if words[:2] == ["CLUSTER", "SLOTS"]:
                return slots((0, 8191, alive[0]), (8192, 16383, refusing.port))
            if words[0] == "EVALSHA" and words[2] == "0": # a step of the list: no names
                return b"*3\r\n$1\r\n0\r\n:0\r\n:0\r\n"
            return f":{1 << 51}\r\n".encode() if words[0] == "EVALSHA" else b"*0\r\n"
        alive.append(self.stub(greets(otherwise)).port)
        url = f"redis-cluster://127.0.0.1:{alive[0]}"
        token = "00000000-0000-4000-8000-000000000000:1:2000-"
        for words in (("run", "x", "--wait", "0"), ("run", "x", "--wait", "2s"), ("take", "x", "-n"),
                      ("status", "x"), ("list",), ("yield", "x"), ("break", "x"), ("release", "x", token),
                      ("watch", "x")):
            command = ("--", "true") if words[0] == "run" else ()
            code, err = self.end(*words, "--redis", url, *command)
            self.assertEqual(code, 77, f"{words}: {err}")
            self.assertIn("NOAUTH", err)

    def test_no_node_wants_us(self):
        stub = self.stub(lambda words: error("NOAUTH Authentication required."))
        self.for_good(77, "NOAUTH", f"redis-cluster://127.0.0.1:{stub.port}")

    def test_one_node_wants_us_not_and_the_other_is_away(self):
        stub = self.stub(lambda words: error("NOAUTH Authentication required."))
        self.for_now(69, "NOAUTH", f"redis-cluster://127.0.0.1:{stub.port},127.0.0.1:"
                                   f"{free_port()}")


class Names(CauseTest):
    def test_libevent_writes_nothing_about_name_servers(self):
        """Its messages would go to the standard error output."""
        path = self.path("resolv.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write("nameserver 127.0.0.1\n")
        mounts = ("unshare", "-rm", "sh", "-c",
                  'mount --bind "$0" /etc/resolv.conf && exec "$@"', path)
        if subprocess.run([*mounts, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("no mount of its own")
        # evdns hands back cancelled requests in the loop, which has ended at the exit
        self.environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        code, _, err = self.end_of(self.spawn(*mounts, COMMAND, "run", "x", "--wait", "4s", "--redis",
                                              "redis://name.invalid", "--", "true"))
        self.assertEqual(code, 69, err)
        self.assertIn('"name.invalid"', err)
        self.assertNotIn("Nameserver", err)
        self.assertNotIn("nameserver", err)


class Later(CauseTest):
    """The server refuses after the lock was granted."""

    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.server("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
        port = self.server.listen()
        self.environment["LOCKWIRE_URL"] = f"redis://app:secret@127.0.0.1:{port}"

    def hold(self, *options):
        process = self.spawn(COMMAND, "run", "x", *options, "--", "sh", "-c",
                             "echo > held; while [ ! -e stop ]; do sleep 0.02; done",
                             cwd=self.folder)
        self.wait_for_file("held", process)
        return process

    def stop(self):
        with open(self.path("stop"), "w", encoding="ascii"):
            pass

    def test_the_release_is_refused(self):
        process = self.hold("--lease", "60s")
        self.server("ACL", "SETUSER", "app", "-del", "-get")
        self.stop()
        code, _, err = self.end_of(process)
        self.assertEqual(code, 77, err)
        self.assertIn("the server refused to release 'x'; it stays locked until its lease expires: ",
                      err)
        self.assertGreater(self.server("PTTL", "x"), 0)

    def test_the_renewal_is_refused(self):
        process = self.hold("--lease", "1s")
        self.server("ACL", "SETUSER", "app", "-mget")
        code, _, err = self.end_of(process)
        self.assertEqual(code, 77, err)
        self.assertIn("the lock 'x' was lost: the server refused to renew the lease: ", err)

    def test_the_release_is_not_answered(self):
        """The command waits for the reply once, for five seconds, and not again when it closes
        the client."""
        process = self.hold()
        self.server.pause()
        began = time.monotonic()
        self.stop()
        self.line_with("the release of 'x' was not confirmed", process.stderr)
        told = time.monotonic()
        code, _, _ = self.end_of(process)
        ended = time.monotonic()
        self.server.resume()
        self.assertEqual(code, 0)
        self.assertLess(ended - told, (told - began) * 0.7) # both are longer on a slow machine

    def test_it_may_not_queue(self):
        """The account may not call scripts, which waiting for a busy lock requires."""
        self.server("SET", "x", "theirs", "PX", 600000)
        self.server("ACL", "SETUSER", "app", "-eval", "-evalsha")
        for wait in ("0", "2s", "forever"):
            code, err = self.end("run", "x", "--wait", wait, "--", "true")
            self.assertEqual(code, 77, err)
            self.assertIn("cannot lock 'x': refused by the server: NOPERM", err)

    def test_status_says_why_waiting_is_slow(self):
        """The reason is the missing permission of the account."""
        for rule, said, word in (("-publish", "PUBLISH is not permitted", "publish"),
                                 ("-subscribe", "refused SUBSCRIBE", "subscribe"),
                                 ("-pubsub", "PUBSUB NUMSUB is not permitted", "numsub")):
            self.server("ACL", "SETUSER", "app", "+@all", rule)
            code, out, err = self.end_of(self.spawn(COMMAND, "status", "x", "--json"))
            self.assertEqual(code, 1, err)
            self.assertIn(said, err)
            self.assertEqual(json.loads(out)["degraded"], [word])
        self.server("ACL", "SETUSER", "app", "+@all")
        code, err = self.end("status", "x")
        self.assertEqual((code, err), (1, ""))

    def test_busy_is_busy(self):
        self.server("SET", "x", "theirs", "PX", 600000)
        for wait in ("0", "300ms"):
            code, err = self.end("run", "x", "--wait", wait, "--", "true")
            self.assertEqual(code, 75, err)


if __name__ == "__main__":
    unittest.main()
