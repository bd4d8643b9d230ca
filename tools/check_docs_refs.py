#!/usr/bin/env python3
"""Documentation names only what exists.

In all documents: relative links lead to a file (and to a heading of it). In ARCHITECTURE.md and
docs/go-to-weft.md also: every `path/file.cc` in code marks exists, every `function()` and
`type::member` in code marks occurs in the sources, and in a table row that names files, in those
files; columns headed "Go..." are Go's business. Every WEFT_ option of the build is documented, and every
key of WEFTDEBUG, both where one looks it up and beside Go's.
"""
import fnmatch
import re
import sys

import checklib

STRICT = ('ARCHITECTURE.md', 'docs/go-to-weft.md')
LINK = re.compile(r'(?<!!)\[[^\]]*\]\(([^)\s]+)\)')
CODE_MARK = re.compile(r'`([^`\n]+)`')
FILE = re.compile(r'^[\w./*{},-]+\.(h|cc|S|cpp|py|md|cmake|json|sh)$|^[\w.-]+(/[\w.-]+)*/$')
CALL = re.compile(r'^((?:\w+::)*~?\w+)\s*\(.*\)$|^((?:\w+::)+~?\w+)$')
PLACES = ('', 'src', 'include', 'include/weft', 'tests', 'docs')


def documents(root):
    return checklib.files(root, 'docs', 'bench', endings=('.md',)) + sorted(p.relative_to(root) for p in root.glob('*.md'))


def slug(heading):
    return re.sub(r'[^\w\- ]', '', heading.strip().lower()).replace(' ', '-')


def check_links(root, doc):
    found = []
    fenced = False
    for number, line in enumerate(checklib.lines(root, doc), 1):
        fenced ^= line.lstrip().startswith('```')
        if fenced:
            continue
        for target in LINK.findall(re.sub(r'`[^`]*`', '', line) if '](' not in line else line):
            if re.match(r'[a-z]+:', target):
                continue
            name, _, anchor = target.partition('#')
            place = ((root / doc).parent / name).resolve() if name else root / doc
            if not place.exists():
                found.append(f'{doc}:{number}: link to {target}, which does not exist')
            elif anchor and place.suffix == '.md':
                headings = [slug(h.lstrip('#')) for h in place.read_text(encoding='utf-8').splitlines() if h.startswith('#')]
                if anchor not in headings:
                    found.append(f'{doc}:{number}: {name or doc} has no heading #{anchor}')
    return found


def expand(name):
    """a/{b,c}.h -> a/b.h, a/c.h"""
    match = re.search(r'\{([^}]*)\}', name)
    if not match:
        return [name]
    return [x for part in match.group(1).split(',') for x in expand(name[:match.start()] + part + name[match.end():])]


class Tree:
    def __init__(self, root):
        self.root = root
        self.paths = [str(f) for f in checklib.files(root, 'src', 'include', 'tests', 'examples', 'tools', 'docs', 'bench', 'cmake',
                                                     endings=checklib.CODE + ('.md', '.py', '.cmake', '.json', '.sh'))]
        self.paths += [f.name for f in root.iterdir() if f.is_file()]
        self.sources = {p: (root / p).read_text(encoding='utf-8') for p in self.paths if p.startswith(('src', 'include'))}

    def find(self, name):
        """The files that a name in a document means: a path from one of PLACES, or a pattern."""
        found = []
        for one in expand(name):
            wanted = [f'{place}/{one}'.lstrip('/') for place in PLACES]
            if one.endswith('/'):
                hits = [w for w in wanted if (self.root / w).is_dir()]
            else:
                hits = [p for p in self.paths if any(fnmatch.fnmatch(p, w) for w in wanted)]
            if not hits:
                return []
            found += hits
        return found

    def has_word(self, word, where=None):
        pattern = re.compile(rf'(?<!\w){re.escape(word)}(?!\w)')
        return any(pattern.search(text) for path, text in self.sources.items() if not where or path in where)


def cells_of(line):
    return [c.strip() for c in line.strip().strip('|').split('|')] if line.lstrip().startswith('|') else None


def marks_in(tokens, tree):
    """Splits code marks into files (name, hits) and functions."""
    named, calls = [], []
    for token in tokens:
        if token.endswith('.go') or token.startswith(('std::', '<', '-', './weft')):
            continue
        if FILE.match(token):
            named.append((token, tree.find(token)))
        elif match := CALL.match(token):
            calls.append((match.group(1) or match.group(2)))
    return named, calls


def check_names(root, doc, tree):
    found, header, fenced = [], None, False
    for number, line in enumerate(checklib.lines(root, doc), 1):
        fenced ^= line.lstrip().startswith('```')
        if fenced:
            continue
        cells = cells_of(line)
        if cells is None:
            header = None
            tokens, in_row = CODE_MARK.findall(line), False
        elif header is None:
            header = cells
            continue
        else:
            ours = [c for h, c in zip(header, cells) if not h.lower().startswith('go')]
            # In a table a column of functions may name them without parentheses.
            tokens = [t + ('()' if h.lower() in ('function', 'functions', 'weft') and re.fullmatch(r'[\w:]+', t) and not FILE.match(t) else '')
                      for h, c in zip(header, cells) if c in ours for t in CODE_MARK.findall(c)]
            tokens += [t for c in ours for t in LINK.findall(c) if FILE.match(t)]
            in_row = True
        named, calls = marks_in(tokens, tree)
        found += [f'{doc}:{number}: {name} does not exist' for name, hits in named if not hits]
        hits = [h for _, some in named for h in some if h in tree.sources] if in_row else []
        for call in calls:
            words = call.split('::')
            if words[0] == 'std':
                continue
            if not all(tree.has_word(w) for w in words if w != 'weft'):
                found.append(f'{doc}:{number}: {call} is not in the sources')
            elif hits and not tree.has_word(words[-1], hits):
                found.append(f'{doc}:{number}: {call} is not in {", ".join(hits)}')
    return found


def check_options(root):
    text = '\n'.join((root / d).read_text(encoding='utf-8') for d in documents(root))
    found = []
    for path in checklib.files(root, 'CMakeLists.txt', 'cmake', 'bench', 'tests', endings=('.txt', '.cmake')):
        for number, line in enumerate(checklib.lines(root, path), 1):
            if (match := re.match(r'\s*option\((WEFT_\w+)', line)) and match.group(1) not in text:
                found.append(f'{path}:{number}: no document mentions {match.group(1)}')
    return found


def check_keys(root):
    """A key of WEFTDEBUG without a line in these is one that nobody finds."""
    table, found = 'src/base/debug_vars.cc', []
    for number, line in enumerate(checklib.lines(root, table) if (root / table).is_file() else [], 1):
        if not (match := re.match(r'\s*\{"(\w+)", &', line)):
            continue
        for doc, mark in (('docs/debugging.md', f'`{match.group(1)}='), ('docs/go-to-weft.md', f'`{match.group(1)}`')):
            if mark not in (root / doc).read_text(encoding='utf-8'):
                found.append(f'{table}:{number}: {doc} does not mention {match.group(1)}')
    return found


def check(root):
    tree = Tree(root)
    found = [f for doc in documents(root) for f in check_links(root, doc)]
    for name in STRICT:
        if (root / name).is_file():
            found += check_names(root, (root / name).relative_to(root), tree)
    return found + check_options(root) + check_keys(root)


def self_test():
    code = {'src/sched/park.cc': 'void park() {}\nclass run_queue { void push(); };\n', 'include/weft/go.h': 'void go();\n'}
    return checklib.plant('check_docs_refs', check, [
        ('clean', {**code, 'ARCHITECTURE.md': '# Map\n[p](src/sched/park.cc) [m](#map) `sched/park.cc` `park()` `run_queue::push`\n'
                   '| step | file | function | Go |\n|---|---|---|---|\n| a | sched/park.cc | `park` | `gopark()` |\n'}, []),
        ('dead link', {**code, 'README.md': '[x](src/none.cc)\n'}, ['src/none.cc']),
        ('dead heading', {**code, 'README.md': '[x](#none)\n'}, ['no heading']),
        ('dead file', {**code, 'ARCHITECTURE.md': 'see `sched/spin.cc`\n'}, ['sched/spin.cc does not exist']),
        ('dead function', {**code, 'ARCHITECTURE.md': 'calls `spin_for_work()`\n'}, ['spin_for_work']),
        ('dead name in a column', {**code, 'docs/go-to-weft.md': '| Go | weft |\n|---|---|\n| `gopark` | `parkk` |\n'}, ['parkk']),
        ('function elsewhere', {**code, 'ARCHITECTURE.md': '| file | function |\n|---|---|\n| `sched/park.cc` | `go` |\n'}, ['go is not in src/sched']),
        ('silent key', {**code, 'src/base/debug_vars.cc': '    {"ka", &vars::ka},\n    {"kb", &vars::kb, 9},\n', 'docs/debugging.md': '`ka=1` `kb=1`\n',
                        'docs/go-to-weft.md': '`ka` kb\n'}, ['go-to-weft.md does not mention kb']),
        ('silent option', {**code, 'CMakeLists.txt': 'option(WEFT_X "x" OFF)\n', 'README.md': 'x\n'}, ['WEFT_X']),
    ])


if __name__ == '__main__':
    sys.exit(checklib.main('check_docs_refs', check, self_test, doc=__doc__))
