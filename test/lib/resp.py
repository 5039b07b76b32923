# SPDX-License-Identifier: MIT
"""A small Redis client, for queries to temporary servers in tests and in the bench. Owns the
protocol (RESP2: nil is None, all else str, int or list). Independent of the queries. Bytes that
are not valid text become surrogates.

Usual course: with Link(path) as link: link("INFO", "cpu")."""
import contextlib
import socket


class RedisError(Exception):
    """An error reply, or a server that closed the connection."""


class Link:
    def __init__(self, path, timeout=30):
        """`path` is that of a unix socket, or (address, port)."""
        self.socket = socket.socket(socket.AF_UNIX if isinstance(path, str) else socket.AF_INET)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def shut(self):
        """Shuts the connection down, so that a thread that reads from it gets the end of file."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.shut()
        self.file.close()
        self.socket.close()

    def send(self, *words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            data = str(word).encode(errors="surrogateescape")
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self.socket.sendall(b"".join(parts))

    def read(self):
        line = self.file.readline()
        if not line:
            raise RedisError("the server closed the connection")
        kind, rest = line[:1], line[1:].rstrip(b"\r\n")
        if kind == b"-":
            raise RedisError(self.text(rest))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.text(self.file.read(size + 2)[:-2])
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        return self.text(rest)

    @staticmethod
    def text(data):
        return data.decode(errors="surrogateescape")

    def __call__(self, *words):
        self.send(*words)
        return self.read()

    def call_all(self, commands):
        for words in commands:
            self.send(*words)
        return [self.read() for _ in commands]
