"""One end of a measured transfer between two hosts; run as a program inside each host's namespace."""

from __future__ import annotations

import contextlib
import socket
import statistics
import sys
import time

PORT = 29499
# Seconds until the transfer has reached its speed, and seconds that are then measured.
WARM_UP_S, MEASURED_S = 0.3, 1.0
ROUND_TRIPS = 200
CHUNK = 1 << 18
# Seconds without news from the other end after which it is given up.
TIMEOUT_S = 10.0


def receive(address: str) -> float:
    """Listen at `address`, return small messages, then take in what comes; its rate in bytes per second."""
    with socket.create_server((address, PORT)) as server:
        print("listening", flush=True)
        server.settimeout(TIMEOUT_S)
        connection, _ = server.accept()
    with connection:
        connection.settimeout(TIMEOUT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ROUND_TRIPS):
            connection.sendall(connection.recv(1))
        began = time.perf_counter()
        while time.perf_counter() - began < WARM_UP_S:
            _take(connection)
        began, received = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < MEASURED_S:
            received += _take(connection)
        return received / passed


def send(address: str) -> float:
    """Send to `address` until it has enough; the median round trip of a small message before that, in microseconds."""
    trips = []
    with socket.create_connection((address, PORT), TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ROUND_TRIPS):
            began = time.perf_counter()
            connection.sendall(b"?")
            connection.recv(1)
            trips.append((time.perf_counter() - began) * 1e6)
        # The receiver hangs up when it has enough.
        with contextlib.suppress(ConnectionError):
            while True:
                connection.sendall(bytes(CHUNK))
    return statistics.median(trips)


def _take(connection: socket.socket) -> int:
    received = len(connection.recv(CHUNK))
    if not received:
        raise ConnectionError("the other end stopped")
    return received


if __name__ == "__main__":
    print({"receive": receive, "send": send}[sys.argv[1]](sys.argv[2]))
