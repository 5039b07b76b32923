# SPDX-License-Identifier: MIT
"""A small Redis client, for asking throw-away servers how they are. Owns the protocol; must
not know what is asked. Happy path: Link(path).call("INFO", "cpu")."""
import socket


class RedisError(Exception):
    pass


class Link:
    def __init__(self, path, timeout=30):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, *words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            data = str(word).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self.socket.sendall(b"".join(parts))

    def read(self):
        line = self.file.readline()
        if not line:
            raise RedisError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.file.read(size + 2)[:-2].decode()
        return [self.read() for _ in range(int(rest))]

    def call(self, *words):
        self.send(*words)
        return self.read()

    def call_all(self, commands):
        for words in commands:
            self.send(*words)
        return [self.read() for _ in commands]
