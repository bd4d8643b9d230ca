#!/usr/bin/env python3
"""Code in documents compiles, excerpts are excerpts, and the lock table is that of base/lock_rank.h.

Every ```cpp block of README.md and docs/ is compiled (not run): one with a main() as a program, any
other as the body of a function, after the headers in PRELUDE. A comment on the line before the block
says otherwise:
    <!-- excerpt: examples/hello.cpp -->   it stands in that file, word for word
    <!-- not compiled: reason -->          it is left alone
The block after <!-- lock order --> is what --lock-order prints.
"""
import concurrent.futures
import os
import re
import subprocess
import sys

import checklib

COMPILER = ['g++', '-std=c++20', '-Wall', '-Wextra', '-fsyntax-only', '-x', 'c++', '-']
PRELUDE = '''#include <weft/weft.h>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>
'''
BLOCK = re.compile(r'(?:^<!-- *([^\n]*?) *-->\n)?^```(\w*)\n(.*?)^```$', re.M | re.S)
RANKS = 'src/base/lock_rank.h'


def blocks(root, doc):
    """(line of the first line of code, remark, language, text)"""
    text = (root / doc).read_text(encoding='utf-8')
    for match in BLOCK.finditer(text):
        yield text.count('\n', 0, match.start(3)) + 1, match.group(1) or '', match.group(2), match.group(3)


def documents(root):
    return checklib.files(root, 'README.md', 'docs', endings=('.md',))


def compile_code(root, doc, code):
    done = subprocess.run([*COMPILER, '-I', str(root / 'include')], input=code, capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if re.search(r': (error|fatal error|warning):', line)]
    if done.returncode and not errors:
        errors = [f'{doc}:1: {done.stderr.strip()}']
    return errors


def check_code(root, doc):
    found, bodies = [], []
    for line, remark, language, text in blocks(root, doc):
        if language != 'cpp' or remark.startswith('not compiled:'):
            continue
        if remark.startswith('excerpt:'):
            source = remark.split(':', 1)[1].strip()
            place = root / source
            if not place.is_file() or text not in place.read_text(encoding='utf-8'):
                found.append(f'{doc}:{line}: this is not in {source}')
        elif re.search(r'\bint main\(', text):
            found += compile_code(root, doc, f'#line {line} "{doc}"\n{text}')
        else:
            bodies.append(f'[[maybe_unused]] static void body_{line}() {{\n#line {line} "{doc}"\n{text}\n}}\n')
    if bodies:
        found += compile_code(root, doc, PRELUDE + ''.join(bodies))
    return found


def lock_order(root):
    """The ranks in topological order, each with its direct successors."""
    text = checklib.without_comments((root / RANKS).read_text(encoding='utf-8'))
    ranks = re.findall(r'\w+', re.search(r'enum class lock_rank[^{]*\{(.*?)count_', text, re.S).group(1))
    edges = re.findall(r'\{(\w+), (\w+)\}', re.search(r'kLockOrder\[\] = \{(.*?)\n\};', text, re.S).group(1))
    sources = '\n'.join(checklib.without_comments((root / f).read_text(encoding='utf-8'))
                        for f in checklib.files(root, 'src') if not f.name.startswith('lock_rank.'))
    order = []
    while len(order) < len(ranks):
        free = [r for r in ranks if r not in order and all(a in order for a, b in edges if b == r)]
        order.append(free[0])
    rows = []
    for rank in order:
        used = '*' if re.search(rf'\block_rank::{rank}\b', sources) else ' '
        after = ', '.join(b for a, b in edges if a == rank)
        rows.append(f'{used} {rank:11}→ {after}' if after else f'{used} {rank}')
    return '\n'.join(rows) + '\n'


def check_lock_order(root):
    if not (root / RANKS).is_file():
        return []
    for line, remark, _, text in blocks(root, 'ARCHITECTURE.md'):
        if remark == 'lock order':
            return [] if text == lock_order(root) else [f'ARCHITECTURE.md:{line}: not what --lock-order prints']
    return ['ARCHITECTURE.md:1: no lock order']


def check(root, arguments=None):
    if arguments and arguments.lock_order:
        print(lock_order(root), end='')
        return []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # they wait for compilers
        found = list(pool.map(lambda doc: check_code(root, doc), documents(root)))
    return [f for of_doc in found for f in of_doc] + check_lock_order(root)


def self_test():
    ranks = ('enum class lock_rank : int {\n  outer,  // says {x, y}\n  inner,\n  count_,\n};\n'
             'constexpr edge kLockOrder[] = {\n    {outer, inner},\n};\n')
    header = {'include/weft/weft.h': '#pragma once\nnamespace weft { void gosched(); }\n'}
    good = '<!-- lock order -->\n```\n* outer      → inner\n  inner\n```\n'
    source = {RANKS: ranks, 'src/gmp/a.h': 'lock l{lock_rank::outer};\n'}
    return checklib.plant('check_docs_code', check, [
        ('clean', {**header, **source, 'ARCHITECTURE.md': good, 'examples/a.cpp': 'int main() {}\n',
                   'README.md': '<!-- excerpt: examples/a.cpp -->\n```cpp\nint main() {}\n```\n',
                   'docs/a.md': '```cpp\nweft::gosched();\n```\n<!-- not compiled: Go -->\n```cpp\ngo f()\n```\n'}, []),
        ('does not compile', {**header, 'docs/a.md': 'x\n```cpp\nweft::gosched();\nweft::go_on();\n```\n'}, ['docs/a.md:4:']),
        ('program', {**header, 'docs/a.md': '```cpp\nint main() { return x; }\n```\n'}, ['docs/a.md:2:']),
        ('no excerpt', {'examples/a.cpp': 'int x;\n', 'README.md': '<!-- excerpt: examples/a.cpp -->\n```cpp\nint y;\n```\n'}, ['README.md:3:']),
        ('old lock order', {**source, 'ARCHITECTURE.md': good.replace('outer      → inner', 'outer')}, ['--lock-order']),
        ('no lock order', {**source, 'ARCHITECTURE.md': '# x\n'}, ['no lock order']),
    ])


def options(parser):
    parser.add_argument('--lock-order', action='store_true', help='print the table of ARCHITECTURE.md')


if __name__ == '__main__':
    sys.exit(checklib.main('check_docs_code', check, self_test, options, doc=__doc__))
