#!/usr/bin/env python3
"""What a process with nothing to do costs, seen from outside: wake-ups of its threads, processor time.

usage: idle_process.py PROGRAM PROCS TASKS SETTLE_MS MS

It is left alone for SETTLE_MS, then watched for MS. The first connection ends it.
"""
import pathlib
import re
import socket
import sys
import time

from server import Server


def look(process):
    """Threads that there are: {tid: (how often it went to sleep, ns of processor time)}."""
    seen = {}
    for task in pathlib.Path(f'/proc/{process.pid}/task').iterdir():
        try:
            slept = re.search(r'^voluntary_ctxt_switches:\s*(\d+)', (task / 'status').read_text(), re.M)
            seen[task.name] = (int(slept.group(1)), int((task / 'schedstat').read_text().split()[0]))
        except FileNotFoundError:  # it has just ended
            pass
    return seen


def main():
    program, procs, tasks, settle_ms, ms = sys.argv[1:]
    seconds = int(ms) / 1000
    with Server(program, procs, tasks) as server:
        time.sleep(int(settle_ms) / 1000)
        before = look(server.process)
        time.sleep(seconds)
        after = look(server.process)
        host, port = server.address.rsplit(':', 1)
        socket.create_connection((host, int(port))).close()
        if server.process.wait(timeout=30):
            sys.exit(f'{program} has ended with {server.process.returncode}')
    # A thread that has come or gone meanwhile was awake for it once at least.
    stayed = before.keys() & after.keys()
    wakeups = len(before.keys() ^ after.keys()) + sum(after[t][0] - before[t][0] for t in stayed)
    print(f'wakeups_per_s {wakeups / seconds:.4f}')
    print(f'cpu_us_per_s {sum(after[t][1] - before[t][1] for t in stayed) / 1e3 / seconds:.4f}')


if __name__ == '__main__':
    main()
