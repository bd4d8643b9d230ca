#!/usr/bin/env python3
"""Every explicit memory order has an `order:` comment that names its label; --table prints the pairs.

A site is WEFT_ORDER(LABEL, order), WEFT_HEADER_ORDER or memory_order_X in src/ and include/. Its comment stands behind
it, behind another line of the same statement, or directly above the statement (or above a run of
statements that use the same label). It names the label; a relaxed order may give only its reason.
A label with a single site has its partner out of sight, so its comment must say in words who that is.
src/ takes its atomics from base/atomic.h; a std::atomic elsewhere, in a public header, too, says why (`not the seam: ...`).
What Ps share (src/gmp/sched.h and the parts of gmp/ that it is made of) is a shared_atomic, whose writes tests count, or says
when it is written (`rarely written: ...`).
"""
import collections
import pathlib
import re
import sys

import checklib

SITE = re.compile(r'WEFT_(?:HEADER_)?ORDER\(\s*(\w+)\s*,\s*(\w+)\s*\)|memory_order_(relaxed|consume|acquire|release|acq_rel|seq_cst)\b')
COMMENT = re.compile(r'//\s?(.*)$')
PARTNER = re.compile(r'\b(pairs|partner|with|sees?|seen|alone|matches|against|before|after)\b', re.I)
SEAM = 'src/base/atomic.h'
SHARED = 'src/gmp/sched.h'
OWN = ('gmp/g.h', 'gmp/m.h', 'gmp/p.h')  # the records of one each

Site = collections.namedtuple('Site', 'path line label order comment')


class Source:
    """A file as code lines and comment lines."""

    def __init__(self, root, path):
        self.path = path
        text = (root / path).read_text(encoding='utf-8')
        raw = text.splitlines()
        self.code = checklib.without_comments(text, strings=True).splitlines()
        self.code += [''] * (len(raw) - len(self.code))
        self.comment = [self._comment(r, c) for r, c in zip(raw, self.code)]

    @staticmethod
    def _comment(raw, code):
        rest = raw[len(code.rstrip()):]
        match = COMMENT.search(rest)
        return match.group(1) if match else ''

    def ends_statement(self, i):
        code = self.code[i].strip()
        return not code or code.startswith('#') or code[-1] in ';{}' or bool(re.match(r'(case\b.*|default|public|private|protected)\s*:$', code))

    def statement(self, i):
        """First and last line of the statement around line i."""
        first = last = i
        while first > 0 and not self.ends_statement(first - 1):
            first -= 1
        while last + 1 < len(self.code) and not self.ends_statement(last):
            last += 1
        return first, last

    def comment_above(self, first):
        block, i = [], first - 1
        while i >= 0 and not self.code[i].strip() and self.comment[i]:
            block.insert(0, self.comment[i])
            i -= 1
        return ' '.join(block)

    def comment_of(self, i, label):
        """All that is said about the statement of line i."""
        first, last = self.statement(i)
        said = [self.comment[j] for j in range(first, last + 1)]
        # A trailing comment may go on in the lines below it.
        j = last + 1
        while said and said[-1] and j < len(self.code) and not self.code[j].strip() and self.comment[j]:
            said.append(self.comment[j])
            j += 1
        said.append(self.comment_above(first))
        while label and 'order:' not in ' '.join(said) and first > 0:
            above, _ = self.statement(first - 1)
            if above == first or not any(label in self.code[k] for k in range(above, first)):
                break
            said += [self.comment[k] for k in range(above, first)] + [self.comment_above(above)]
            first = above
        return ' '.join(s for s in said if s)


def is_argument(code, start):
    """Not an order that a comparison or a conditional expression merely mentions."""
    before = re.sub(r'(::\s*)?(std\s*::\s*)?$', '', code[:start]).rstrip()
    return not before.endswith(('==', '!=', '?', ':')) and not before.endswith('##')


def sites(root):
    for path in checklib.files(root, 'src', 'include'):
        source = Source(root, path)
        for i, code in enumerate(source.code):
            if code.lstrip().startswith('#'):
                continue
            for match in SITE.finditer(code):
                label, order, raw = match.groups()
                if raw and not is_argument(code, match.start()):
                    continue
                yield Site(path, i + 1, label, order or raw, source.comment_of(i, label))


def order_text(comment):
    return comment.split('order:', 1)[1] if 'order:' in comment else ''


def check_site(site, count):
    said = order_text(site.comment)
    where = f'{site.path}:{site.line}'
    name = site.label or f'memory_order_{site.order}'
    if not said.strip():
        return f'{where}: {name} has no order: comment'
    named = site.label is not None and re.search(rf'\b{site.label}\b', site.comment)
    if site.label and not named and site.order != 'relaxed':
        return f'{where}: the order: comment does not name {site.label}'
    words = re.findall(r'\w+', said)
    if site.order == 'relaxed':
        if not set(words) - {'relaxed', site.label}:
            return f'{where}: relaxed without a reason'
    elif count == 1 and not PARTNER.search(said):
        return f'{where}: {name} is used once, and its comment does not say who its partner is'
    return None


def check_seam(root):
    found = []
    for path in checklib.files(root, 'src', 'include'):
        source = Source(root, path)
        for i, code in enumerate(source.code):
            if str(path) != SEAM and re.search(r'std::atomic(<|_flag|_ref|_thread_fence)', code):
                if 'not the seam' not in source.comment_of(i, None):
                    found.append(f'{path}:{i + 1}: std::atomic outside {SEAM} without "not the seam: reason"')
            if path.parts[0] == 'include' and re.search(r'^(?!#define ).*\bWEFT_ORDER\b', code):
                found.append(f'{path}:{i + 1}: WEFT_ORDER belongs to src/')
    return found


def check_shared(root):
    if not (root / SHARED).is_file():
        return []
    parts = re.findall(r'^#include "(gmp/\w+\.h)"', (root / SHARED).read_text(encoding='utf-8'), re.M)
    found = []
    for path in [pathlib.Path(SHARED)] + [pathlib.Path('src', part) for part in parts if part not in OWN]:
        source = Source(root, path)
        for i, code in enumerate(source.code):
            if re.search(r'(?<![\w:])(std::)?atomic<', code) and not re.search(r'rarely written: \w+', source.comment_of(i, None)):
                found.append(f'{path}:{i + 1}: all Ps may write it, and nobody counts: a shared_atomic, or "rarely written: when"')
    return found


def table(all_sites):
    by_label = collections.defaultdict(list)
    for site in all_sites:
        by_label[site.label or '(raw)'].append(site)
    for label, group in sorted(by_label.items()):
        print(label)
        for site in group:
            print(f'  {site.order:8} {site.path}:{site.line:<5} {order_text(site.comment).strip()[:110]}')


def check(root, arguments=None):
    all_sites = [s for s in sites(root) if str(s.path) != SEAM]
    if arguments and arguments.table:
        table(all_sites)
        return []
    count = collections.Counter(s.label for s in all_sites if s.label)
    found = [f for s in all_sites if (f := check_site(s, count[s.label] if s.label else 1))]
    return found + check_seam(root) + check_shared(root)


def self_test():
    good = ('  a.store(1, WEFT_ORDER(XX1, release));  // order: XX1 publishes b; pairs with get()\n'
            '  // order: XX1 acquire; see put()\n  x = a.load(\n      WEFT_ORDER(XX1, acquire));\n'
            '  n.load(WEFT_ORDER(XX0, relaxed));  // order: relaxed, a statistic\n')
    return checklib.plant('check_order_comments', check, [
        ('clean', {'src/base/a.h': good}, []),
        ('no comment', {'src/base/a.h': good + '  a.load(WEFT_ORDER(XX1, acquire));\n'}, ['no order: comment']),
        ('raw', {'include/weft/a.h': '  a.load(std::memory_order_acquire);\n'}, ['no order: comment']),
        ('other label', {'src/base/a.h': good + '  a.load(WEFT_ORDER(XX1, acquire));  // order: YY2 get() sees it\n'},
         ['does not name XX1']),
        ('alone', {'src/base/a.h': '  a.store(1, WEFT_ORDER(ZZ1, release));  // order: ZZ1 release\n'}, ['partner']),
        ('comment too far', {'src/base/a.h': '  // order: XX1 pairs with y\n  int x;\n  a.load(WEFT_ORDER(XX1, acquire));\n'},
         ['no order: comment']),
        ('bare relaxed', {'src/base/a.h': '  a.load(WEFT_ORDER(XX0, relaxed));  // order: relaxed\n'}, ['without a reason']),
        ('in words only', {'src/base/a.h': '// says WEFT_ORDER(A, release) in prose\n'}, []),
        ('beside the seam', {'src/base/a.h': 'std::atomic<int> x;\nstd::atomic<int> y;  // not the seam: a counter for tests\n'},
         ['a.h:1: std::atomic']),
        ('shared', {'src/gmp/sched.h': '#include "gmp/m.h"\n#include "gmp/nap.h"\n  shared_atomic<int> a{0};\n  atomic<int> b;  // rarely written: at boot\n'
                                       '  // rarely written: when the world is stopped\n  atomic<int> c;\n  atomic<int> d;\n  atomic<int> e;  // rarely written:\n',
                    'src/gmp/nap.h': '  alignas(64) atomic<int> f{0};\n', 'src/gmp/m.h': '  atomic<int> one_s_own;\n'},
         ['sched.h:7: all Ps', 'sched.h:8: all Ps', 'nap.h:1: all Ps']),
        ('beside the seam, in a header', {'include/weft/a.h': 'std::atomic<bool> x;\n'}, ['a.h:1: std::atomic']),
    ])


def options(parser):
    parser.add_argument('--table', action='store_true', help='print label -> sites instead')


if __name__ == '__main__':
    sys.exit(checklib.main('check_order_comments', check, self_test, options, doc=__doc__))
