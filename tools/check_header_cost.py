#!/usr/bin/env python3
"""What a public header costs its includer, and what it must not contain.

Prints preprocessed lines and seconds of the processor per header. Too many lines fail; seconds are only shown, since
they belong to the machine. Also: self-contained, no macro without WEFT_, no `using namespace`, no
thread_local, and none of the standard headers that drag in half the library.
"""
import concurrent.futures
import re
import resource
import subprocess
import sys

import checklib

# weft.h has all, so it cannot be cheaper than thread.h, whose jthread needs <stop_token> (51k lines).
# std::runtime_error, the base of closed_channel, is 29,000 of them; runtime.h has <string> and <vector>, for metrics.
# Errors of I/O are std::error_code: <system_error> is 29,000 as well.
# Where std has the name it must be std's own: lock_guard and scoped_lock come with <mutex> (37k), cv_status with
# <condition_variable> (57k), future_error and launch with <future> (60k). Whoever wants a semaphore pays for none of them.
LINES = {'chan.h': 40_000, 'select.h': 40_000, 'thread.h': 68_000, 'context.h': 55_000, 'net.h': 45_000, 'time.h': 45_000,
         'mutex.h': 40_000, 'shared_mutex.h': 40_000, 'once.h': 45_000, 'condition_variable.h': 60_000, 'future.h': 66_000,
         'singleflight.h': 73_000, 'stop_token.h': 63_000, 'task_group.h': 45_000, 'runtime.h': 34_000, 'weft.h': 82_000,
         'buffer.h': 31_000, 'io.h': 40_500, 'file.h': 40_000, 'signal.h': 41_000, 'process.h': 40_500,
         'boost.h': 95_000}  # Asio's buffers and error codes; not in weft.h
LINES_DEFAULT = 30_000
ITS_OWN = {('mutex.h', 'mutex'), ('condition_variable.h', 'condition_variable')}  # see LINES
BANNED = {'thread', 'mutex', 'condition_variable', 'functional', 'iostream'}
GUARDED = {'chrono'}  # only in the branch for other standard libraries than libstdc++
COMPILER = ['g++', '-std=c++20', '-x', 'c++']


def public_headers(root):
    return [h for h in checklib.files(root, 'include/weft', endings=('.h',)) if len(h.parts) == 3]


def compile_header(root, header, *flags):
    return subprocess.run([*COMPILER, *flags, '-I', str(root / 'include'), '-'], input=f'#include <{"/".join(header.parts[1:])}>\n',
                          capture_output=True, text=True, check=False)


def cost(root, header):
    """(lines, seconds of the processor), or the compiler's complaint. In a process of its own: its children are counted."""
    text = compile_header(root, header, '-E')
    if text.returncode:
        return None, text.stderr
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    checked = compile_header(root, header, '-fsyntax-only')
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if checked.returncode:
        return None, checked.stderr
    return text.stdout.count('\n'), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def check_contents(root):
    found = []
    for path in checklib.files(root, 'include', endings=('.h',)):
        text = checklib.without_comments((root / path).read_text(encoding='utf-8'))
        depth = 0
        for number, line in enumerate(text.splitlines(), 1):
            where = f'{path}:{number}'
            directive = re.match(r'\s*#\s*(\w+)\s*(.*)', line)
            if directive:
                word, rest = directive.groups()
                depth += {'if': 1, 'ifdef': 1, 'ifndef': 1, 'endif': -1}.get(word, 0)
                name = rest.strip('<>" ') if word == 'include' else ''
                if (path.name, name) in ITS_OWN:
                    continue
                if name in BANNED or (name in GUARDED and depth == 0):
                    found.append(f'{where}: <{name}> is too dear for a public header')
                if word == 'define' and not rest.startswith('WEFT_'):
                    found.append(f'{where}: a macro without WEFT_: {rest.split()[0]}')
            if re.search(r'\busing\s+namespace\b', line):
                found.append(f'{where}: using namespace in a header')
            if re.search(r'\bthread_local\b', line):
                found.append(f'{where}: thread_local in a header')
    return found


def check(root):
    found = check_contents(root)
    print(f'{"header":24} {"lines":>8} {"limit":>8} {"seconds":>8}')
    headers = public_headers(root)
    with concurrent.futures.ProcessPoolExecutor() as pool:
        costs = list(pool.map(cost, [root] * len(headers), headers))
    for header, (count, seconds) in zip(headers, costs):
        limit = LINES.get(header.name, LINES_DEFAULT)
        if count is None and 'boost/' in seconds and 'No such file' in seconds:
            print(f'{header.name:24} not compiled: Boost is not installed (Debian: libboost-dev)')
            continue
        if count is None:
            found.append(f'{header}:1: does not compile by itself: {seconds.strip().splitlines()[0]}')
            continue
        print(f'{header.name:24} {count:8} {limit:8} {seconds:8.2f}')
        if count > limit:
            found.append(f'{header}:1: {count} preprocessed lines, limit {limit}')
    return found


def self_test():
    return checklib.plant('check_header_cost', check, [
        ('clean', {'include/weft/a.h': '#pragma once\n#include <cstddef>\n'}, []),
        ('dear', {'include/weft/a.h': '#include <regex>\n'}, ['preprocessed lines']),
        ('not self-contained', {'include/weft/a.h': 'std::size_t f();\n'}, ['does not compile']),
        ('banned', {'include/weft/a.h': '#include <iostream>\n'}, ['too dear', 'preprocessed lines']),
        ('macro', {'include/weft/detail/a.h': '#define go 1\n'}, ['without WEFT_']),
        ('using', {'include/weft/a.h': 'namespace a {}\nusing namespace a;\n'}, ['using namespace']),
        ('tls', {'include/weft/a.h': 'inline thread_local int x;\n'}, ['thread_local']),
    ])


if __name__ == '__main__':
    sys.exit(checklib.main('check_header_cost', check, self_test, doc=__doc__))
