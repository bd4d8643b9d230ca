#!/usr/bin/env python3
"""Memory of an HTTP server per connection that has had an answer and waits for the next request.

usage: idle_connections.py SERVER PROCS CONNECTIONS
"""
import socket
import sys

from server import Server, raise_descriptor_limit

REQUEST = b'GET / HTTP/1.1\r\nHost: x\r\n\r\n'


def ask(connection):
    connection.sendall(REQUEST)
    answer = b''
    while not answer.endswith(b'Hello, world!'):
        part = connection.recv(4096)
        if not part:
            sys.exit('the server has closed a connection')
        answer += part


def main():
    program, procs, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    hard = raise_descriptor_limit()
    if hard < count + 100:
        sys.exit(f'{count} connections need more descriptors than the hard limit of {hard} (ulimit -Hn)')
    with Server(program, procs) as server:
        host, port = server.address.rsplit(':', 1)
        connections = []

        def connect(n):
            for _ in range(n):
                connections.append(socket.create_connection((host, int(port))))
                ask(connections[-1])

        connect(100)  # what every server needs once
        before, tables = server.memory(), server.memory('VmPTE')
        connect(count)
        print(f'rss_bytes_per_connection {(server.memory() - before) / count:.1f}')
        print(f'pte_bytes_per_connection {(server.memory("VmPTE") - tables) / count:.1f}')


if __name__ == '__main__':
    main()
