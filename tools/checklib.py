"""What the checks in this folder share: finding files, reporting, and the self-test that plants violations.

A check is a function check(root) -> list of 'file:line: what is wrong'. Its self-test gives small
trees as {path: text} and the words that the findings must contain; a tree without a fault must pass.
"""
import argparse
import contextlib
import io
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = ('.h', '.cc', '.cpp', '.S')


def files(root, *folders, endings=CODE):
    """Files below the folders (or single files), sorted, as paths relative to root."""
    found = []
    for folder in folders:
        place = root / folder
        if place.is_file():
            found.append(place)
        elif place.is_dir():
            found += [f for f in place.rglob('*') if f.is_file() and f.suffix in endings]
    return sorted(f.relative_to(root) for f in found)


def lines(root, path):
    return (root / path).read_text(encoding='utf-8').splitlines()


_TOKEN = re.compile(r'R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*(?:.|\n)*?\*/')


def without_comments(text, strings=False):
    """The text with comments (and strings, if asked) blanked; lines keep their numbers."""
    def blank(match):
        token = match.group(0)
        if token.startswith('/') or strings:
            return re.sub(r'[^\n]', ' ', token)
        return token
    return _TOKEN.sub(blank, text)


def main(name, check, self_test, options=None, doc=''):
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument('--root', type=pathlib.Path, default=ROOT)
    parser.add_argument('--self-test', action='store_true', help='find planted violations')
    if options:
        options(parser)
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    findings = check(arguments.root) if not options else check(arguments.root, arguments)
    for finding in findings:
        print(finding)
    print(f'{name}: {len(findings)} finding{"s"[:len(findings) != 1]}', file=sys.stderr)
    return 1 if findings else 0


def plant(name, check, cases):
    """cases: list of (title, {path: text}, [words each expected in a finding of its own])."""
    for title, tree, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in tree.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding='utf-8')
            with contextlib.redirect_stdout(io.StringIO()):
                findings = check(root)
        missing = [words for words in expected if not any(words in f for f in findings)]
        if missing or len(findings) != len(expected):
            print(f'{name}: self-test "{title}" wanted {expected}, found {findings}', file=sys.stderr)
            return 1
    print(f'{name}: self-test passed, {len(cases)} cases', file=sys.stderr)
    return 0
