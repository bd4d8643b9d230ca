#!/usr/bin/env python3
"""Puts names and lines into a crash report of a program that was stripped.

usage: symbolize.py [--file PATH]... [--debug-dir DIR] [REPORT]

A frame without them reads

    0x55d0c3a01234(...)
            /usr/bin/app:0x1234

and the end of the report names the build id of each such file. What is asked, in this order: the files
given by --file (the same program before it was stripped, or its .debug file; told apart by their build
ids), DIR/.build-id/ab/cdef.debug (default: /usr/lib/debug), the file named in the report itself. Needs
addr2line and readelf (binutils).
"""
import argparse
import os
import re
import subprocess
import sys

PLACE = re.compile(r"^\t(?P<path>/.*):(?P<address>0x[0-9a-f]+)(?P<offset> \+0x[0-9a-f]+)?(?P<rest> sp=.*)?$")
FILE = re.compile(r"^\t(?P<path>/.*) build id (?P<id>[0-9a-f]+)$")


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        sys.exit(f"symbolize: {command[0]} is not there (Debian: binutils)")
    except subprocess.CalledProcessError:
        return ""


def build_id(path):
    found = re.search(r"Build ID: ([0-9a-f]+)", output_of("readelf", "-n", path))
    return found.group(1) if found else None


class Symboliser:
    def __init__(self, options, ids):
        self.options = options
        self.ids = ids
        self.given = {build_id(f): f for f in options.file}
        self.known = {}

    def source_of(self, path):
        wanted = self.ids.get(path)
        if wanted in self.given:
            return self.given[wanted]
        if wanted:
            separate = os.path.join(self.options.debug_dir, ".build-id", wanted[:2], wanted[2:] + ".debug")
            if os.path.exists(separate):
                return separate
        if os.path.exists(path) and (wanted is None or build_id(path) == wanted):
            return path
        return None

    def frames(self, path, address):
        """[(function, file:line)], innermost first; empty if nothing is known."""
        if (path, address) not in self.known:
            found = []
            source = self.source_of(path)
            if source:
                inside = hex(int(address, 16) - 1)  # it is a return address
                lines = output_of("addr2line", "-Cfie", source, inside).splitlines()
                found = [(f, place.split(" (disc")[0]) for f, place in zip(lines[::2], lines[1::2]) if f != "??"]
            self.known[path, address] = found
        return self.known[path, address]


def short(function):
    """Go's brevity: no arguments, no template arguments."""
    depth, text = 0, ""
    for c in function.replace("(anonymous namespace)", "(anonymous)"):
        if c == "<":
            text += "<...>" if depth == 0 else ""
            depth += 1
        elif c == ">" and depth > 0:
            depth -= 1
        elif depth == 0:
            text += c
    return re.sub(r"\((?!anonymous|\)).*$|\(\)( const)?$", "", text) + "(...)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--debug-dir", default="/usr/lib/debug")
    parser.add_argument("report", nargs="?")
    options = parser.parse_args()
    lines = (open(options.report) if options.report else sys.stdin).read().splitlines()
    ids = {m["path"]: m["id"] for m in map(FILE.match, lines) if m}
    symbols = Symboliser(options, ids)
    previous = None
    for line in lines:
        place = PLACE.match(line)
        frames = symbols.frames(place["path"], place["address"]) if place and previous is not None else []
        if not frames:
            if previous is not None:
                print(previous)
            previous = line
            continue
        created = re.match(r"(created by )\S.*?\(\.\.\.\)(.*)", previous)
        if created:  # one place: the innermost that is not a template of weft's
            users = [f for f in frames if not re.search(r"(^| )weft::", short(f[0]))]
            frames = (users or frames)[:1]
        for index, (function, where) in enumerate(frames):
            head, tail = (created[1], created[2]) if created else ("", "")
            print(f"{head}{short(function)}{tail}")
            last = index == len(frames) - 1
            print(f"\t{where}" + ((place["offset"] or "") + (place["rest"] or "") if last else ""))
        previous = None
    if previous is not None:
        print(previous)


main()
