#!/usr/bin/env python3
"""Requests per second of an HTTP server, with wrk as the load in a process of its own.

usage: http_load.py SERVER PROCS CONNECTIONS SECONDS
"""
import re
import shutil
import subprocess
import sys

from server import Server

UNITS = {'us': 1, 'ms': 1e3, 's': 1e6, 'm': 60e6}


def microseconds(text):
    number, unit = re.fullmatch(r'([\d.]+)([a-z]+)', text).groups()
    return float(number) * UNITS[unit]


def wrk(address, connections, seconds):
    done = subprocess.run(['wrk', '-t1', f'-c{connections}', f'-d{seconds}s', '--latency', f'http://{address}/'],
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    # What took longer than two seconds is counted there, too, and is no error.
    errors = re.search(r'Socket errors: connect (\d+), read (\d+), write (\d+)', done)
    if (errors and any(map(int, errors.groups()))) or 'Non-2xx' in done:
        sys.exit(done)
    count, took = re.search(r'(\d+) requests in ([\d.]+m?s)', done).groups()
    if int(count) == 0:
        sys.exit('nothing was answered:\n' + done)
    percent = dict(re.findall(r'(\d\d)%\s+([\d.]+[a-z]+)', done))
    return int(count), microseconds(took), microseconds(percent['50']), microseconds(percent['99'])


def main():
    program, procs, connections, seconds = sys.argv[1:]
    if not shutil.which('wrk'):
        sys.exit('wrk is not installed (Debian: wrk)')
    with Server(program, procs) as server:
        wrk(server.address, connections, 1)  # warm
        before = server.cpu_seconds()
        count, took, p50, p99 = wrk(server.address, connections, seconds)
        cpu = server.cpu_seconds() - before
    print(f'us_per_request {took / count:.4f}')
    print(f'latency_us_p50 {p50:.1f}')
    print(f'latency_us_p99 {p99:.1f}')
    print(f'cpu_us_per_request {cpu * 1e6 / count:.4f}')


if __name__ == '__main__':
    main()
