#!/usr/bin/env python3
"""A file includes only its own layer or lower ones; public headers include nothing of src/; every
source is in the build.

The layers are those of ARCHITECTURE.md: the order of folders below is the architecture.
"""
import re
import sys

import checklib

LAYER = {
    'base': 0,
    'os': 1, 'fiber': 1,
    'gmp': 2, 'timer': 2, 'poll': 2, 'trace': 2,
    'sched': 3,
    'chan': 4, 'sync': 4, 'time': 4, 'io': 4,
    'net': 5, 'debug': 5, 'testing': 5,
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# Only the public face: users see these programs and headers, or stand where users stand.
PUBLIC_ONLY = ('include', 'tests/conformance', 'tests/package', 'examples')


def includes(root, path):
    for number, line in enumerate(checklib.lines(root, path), 1):
        if match := INCLUDE.match(line):
            yield number, match.group(1), match.group(2)


def check_source(root, path):
    folder = path.parts[1]
    if len(path.parts) < 3 or folder not in LAYER:
        return [f'{path}:1: not in a folder with a layer']
    found = []
    for number, mark, target in includes(root, path):
        first = target.split('/')[0]
        if mark == '<':
            continue
        if target == 'model/explorer.h' and str(path) in SEAM:
            continue
        if '/' not in target or first not in LAYER:
            found.append(f'{path}:{number}: "{target}" is not a full path from src/')
        elif LAYER[first] > LAYER[folder]:
            found.append(f'{path}:{number}: {folder} (layer {LAYER[folder]}) includes {target} (layer {LAYER[first]})')
        elif not (root / 'src' / target).is_file():
            found.append(f'{path}:{number}: "{target}" does not exist')
    return found


# The seam: compiled against the explorer under WEFT_MODEL.
SEAM = ('src/base/atomic.h', 'src/base/futex.h', 'src/base/note.h', 'src/base/lock.h')


def check_public(root, path):
    found = []
    for number, mark, target in includes(root, path):
        first = target.split('/')[0]
        if mark == '"' and (first in LAYER or '..' in target or path.parts[0] == 'include'):
            found.append(f'{path}:{number}: "{target}": only <weft/...> is public')
        if mark == '<' and first == 'weft' and not (root / 'include' / target).is_file():
            found.append(f'{path}:{number}: <{target}> does not exist')
    return found


def check_listed(root):
    """CMake lists files by hand, so that one may be forgotten."""
    found = []
    for folder, ending in (('src', ('.cc',)), ('include', ('.h',)), ('tests', ('.cc',)), ('examples', ('.cpp',))):
        lists = checklib.files(root, folder if folder != 'include' else 'src', endings=('.txt',))
        text = '\n'.join((root / f).read_text(encoding='utf-8') for f in lists)
        for path in checklib.files(root, folder, endings=ending):
            name = path.stem if folder == 'examples' else '/'.join(path.parts[1:])
            if lists and not re.search(rf'(?<![\w.]){re.escape(name)}(?!\w)', text) and path.parts[1] != 'package':
                found.append(f'{path}:1: no CMakeLists.txt in {folder}/ lists it')
    return found


def check(root):
    found = check_listed(root)
    for path in checklib.files(root, 'src'):
        found += check_source(root, path)
    for path in checklib.files(root, *PUBLIC_ONLY):
        found += check_public(root, path)
    return found


def self_test():
    return checklib.plant('check_layers', check, [
        ('clean', {'src/base/a.h': '#include <atomic>\n', 'src/sched/b.cc': '#include "base/a.h"\n'}, []),
        ('upwards', {'src/gmp/a.h': '#include "sched/b.h"\n', 'src/sched/b.h': ''}, ['gmp (layer 2) includes sched']),
        ('relative', {'src/gmp/a.h': '#include "g.h"\n', 'src/gmp/g.h': ''}, ['not a full path']),
        ('gone', {'src/gmp/a.h': '#include "base/no.h"\n'}, ['does not exist']),
        ('new folder', {'src/util/a.h': ''}, ['not in a folder']),
        ('public', {'include/weft/a.h': '#include "base/b.h"\n', 'src/base/b.h': ''}, ['only <weft/...>']),
        ('forgotten', {'src/CMakeLists.txt': 'base/a.cc\n', 'src/base/a.cc': '', 'src/base/aa.cc': ''}, ['aa.cc:1: no CMake']),
        ('conformance', {'tests/conformance/a.cc': '#include "gmp/g.h"\n#include "support/x.h"\n'}, ['gmp/g.h']),
    ])


if __name__ == '__main__':
    sys.exit(checklib.main('check_layers', check, self_test, doc=__doc__))
