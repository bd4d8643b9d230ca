#!/usr/bin/env python3
"""Habits that the compiler does not see: no sleeping in tests, one place for TLS, no disabled tests,
no path of one machine, nothing left open.
"""
import re
import sys

import checklib

# Of a thread, not of a note: those are events.
SLEEP = re.compile(r'\b(this_thread::sleep_(for|until)|usleep|nanosleep|clock_nanosleep)\s*\(|^\s*sleep_(for|until)\s*\(|(^|[^.>\w])sleep\(\d')
TLS = re.compile(r'\b(thread_local|__thread)\b')
DISABLED = re.compile(r'\bDISABLED_\w+|\bGTEST_SKIP\(\)\s*;')  # a skip that prints its reason is fine
MACHINE = re.compile(r'(?:^|[\s"\'(=:])(/(?:home/(?!app\b|user\b)|root/|work/|Users/)[\w.-]+)')
OPEN = re.compile(r'\b(TODO|FIXME|XXX)\b')
TEXT = checklib.CODE + ('.py', '.md', '.cmake', '.txt', '.json', '.sh', '.in', '')
FOLDERS = ('src', 'include', 'tests', 'examples', 'bench', 'docs', 'cmake', 'tools', 'weft', '.ci', 'CMakeLists.txt', 'CMakePresets.json',
           'README.md', 'ARCHITECTURE.md', 'HACKING.md', 'CONTRIBUTING.md', 'CHANGELOG.md')
THIS = 'tools/check_tests.py'


def code_and_raw(root, path):
    text = (root / path).read_text(encoding='utf-8', errors='replace')
    return zip(range(1, 10**9), checklib.without_comments(text, strings=True).splitlines(), text.splitlines())


def marked(root, path, number, mark):
    """`// mark: reason` on the line or on the line above."""
    raw = checklib.lines(root, path)
    return any(re.search(rf'//\s*{mark}:\s*\S+ \S+', raw[i]) for i in (number - 1, number - 2) if 0 <= i < len(raw))


def beside_tls(root, path, number):
    """The rare exception explains itself above the variable: why no switch of stacks can come between."""
    return any('beside tls.h:' in line for line in checklib.lines(root, path)[max(0, number - 5):number])


def check_code(root):
    found = []
    for path in checklib.files(root, 'tests', 'examples', endings=('.h', '.cc', '.cpp')):
        for number, code, _ in code_and_raw(root, path):
            if path.parts[0] == 'tests' and SLEEP.search(code) and not marked(root, path, number, 'sleep-ok'):
                found.append(f'{path}:{number}: sleeps; wait for the event, or say why in `// sleep-ok: ...`')
            if DISABLED.search(code):
                found.append(f'{path}:{number}: a test that does not run, without a word')
    for path in checklib.files(root, 'src', 'include', endings=('.h', '.cc')):
        for number, code, _ in code_and_raw(root, path):
            if TLS.search(code) and not str(path).startswith('src/base/tls.') and not beside_tls(root, path, number):
                found.append(f'{path}:{number}: thread_local outside src/base/tls.h (or `// ... beside tls.h: why`)')
    return found


def check_text(root):
    found = []
    for path in checklib.files(root, *FOLDERS, endings=TEXT):
        if str(path) == THIS or '__pycache__' in path.parts:
            continue
        for number, raw in enumerate((root / path).read_text(encoding='utf-8', errors='replace').splitlines(), 1):
            if match := MACHINE.search(raw):
                found.append(f'{path}:{number}: a path of one machine: {match.group(1)}')
            if match := OPEN.search(raw):
                found.append(f'{path}:{number}: {match.group(1)}: finish it, or describe the limit')
    return found


def check(root):
    return check_code(root) + check_text(root)


def self_test():
    return checklib.plant('check_tests', check, [
        ('clean', {'tests/a.cc': '// sleep_for( in prose\nnanosleep(&t, 0);  // sleep-ok: a foreign thread must block here\n',
                   'src/base/tls.h': 'thread_local int x;\n'}, []),
        ('sleep', {'tests/a.cc': 'std::this_thread::sleep_for(1ms);\nn.sleep_for(5);\nn.sleep();\n::sleep(1);\n'}, ['a.cc:1: sleeps', 'a.cc:4: sleeps']),
        ('sleep without reason', {'tests/a.cc': 'usleep(1);  // sleep-ok:\n'}, ['sleeps']),
        ('tls', {'src/gmp/a.h': 'inline thread_local int x;\n'}, ['thread_local outside']),
        ('disabled', {'tests/a.cc': 'TEST(a, DISABLED_b) {}\nGTEST_SKIP();\nGTEST_SKIP() << "old kernel";\n'}, ['a.cc:1: a test', 'a.cc:2: a test']),
        ('path', {'src/base/a.cc': 'open("/home/jane/x");\n'}, ['/home/jane']),
        ('open end', {'src/base/a.cc': '// TO' 'DO later\n'}, ['finish it']),
    ])


if __name__ == '__main__':
    sys.exit(checklib.main('check_tests', check, self_test, doc=__doc__))
