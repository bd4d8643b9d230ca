# Goroutines in gdb, of a running program or of a core file:
#
#   info goroutines          one line each: id, state, name, where
#   goroutine N bt           the stack of goroutine N; any other command that looks at frames works, too
#   goroutine all bt         the stacks of all of them
#
# The text is in the program itself (section .debug_gdb_scripts), and gdb loads it if its `auto-load safe-path`
# allows that; otherwise: `source weft-gdb.py`, which is installed in share/weft.
#
# No debug information is needed: weft_debug_layout, filled in by src/debug/gdb_layout.cc, says where what is. A
# parked goroutine is shown by an unwinder that lets its registers follow on the innermost frame of the
# selected thread; that one frame is left out of what is printed. Nothing is written into the program.
import gdb
import gdb.unwinder

WORD = 8
STATES = {0: 'idle', 1: 'runnable', 2: 'running', 3: 'syscall', 4: 'waiting', 6: 'dead', 9: 'preempted'}
FIELDS = ('magic', 'version', 'all_gs', 'chunk_next', 'chunk_used', 'chunk_records', 'g_size', 'g_sp', 'g_m',
          'g_status', 'g_reason', 'g_goid', 'g_parent', 'g_created_pc', 'g_name', 'g_locked_m', 'g_waiting_on',
          'g_waiting_since', 'm_id', 'm_tid', 'reasons', 'reason_count', 'clock', 'g_frozen',
          'm_lent_once', 'm_locked_by_user')
MAGIC = 0x4244476674666577
# Offsets in a suspended frame: src/fiber/switch_*.S.
FRAMES = {
    'i386:x86-64': ({'r15': 8, 'r14': 16, 'r13': 24, 'r12': 32, 'rbx': 40, 'rbp': 48}, 'rip', 56, 'rsp', 64),
    'aarch64': ({'x29': 0, **{f'x{n}': 16 + 8 * (n - 19) for n in range(19, 29)}}, 'pc', 8, 'sp', 176),
}


class WeftError(gdb.GdbError):
    pass


def memory(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


def number(address, size=WORD):
    return int.from_bytes(memory(address, size), 'little')


def text(address):
    """A C string."""
    found = b''
    while b'\0' not in found and len(found) < 256:
        found += memory(address + len(found), 16)
    return found.split(b'\0')[0].decode(errors='replace')


class Layout:
    def __init__(self):
        try:
            at = int(gdb.parse_and_eval('(unsigned long)&weft_debug_layout'))
        except gdb.error:
            raise WeftError('weft: this program has no symbol weft_debug_layout: not linked with weft, or stripped')
        words = memory(at, WORD * len(FIELDS))
        for i, name in enumerate(FIELDS):
            setattr(self, name, int.from_bytes(words[i * WORD:(i + 1) * WORD], 'little'))
        if self.magic == 0:
            raise WeftError('weft: the runtime has not started yet')
        if self.magic != MAGIC or self.version != 3:
            raise WeftError('weft: this script is for another version of the library')


class Goroutine:
    def __init__(self, layout, at):
        record = memory(at, layout.g_size)

        def field(offset, size=WORD):
            return int.from_bytes(record[offset:offset + size], 'little')

        self.id = field(layout.g_goid)
        self.status = field(layout.g_status, 1)
        self.sp = field(layout.g_sp)
        self.parent = field(layout.g_parent)
        self.created_pc = field(layout.g_created_pc)
        home = field(layout.g_locked_m)  # the first goroutine's is only lent to it, as in dump.cc
        self.locked = home != 0 and (number(home + layout.m_lent_once, 1) == 0 or
                                     number(home + layout.m_locked_by_user, 4) != 0)
        name = field(layout.g_name)
        self.name = text(name) if name else ''
        m = field(layout.g_m)
        frozen = field(layout.g_frozen, 1) != 0  # runnable, but on its stack and on its thread
        self.tid = number(m + layout.m_tid, 4) if m and (frozen or self.status in (2, 3, 9)) else 0
        self.state = STATES.get(self.status, str(self.status))
        minutes = 0
        if self.status == 4:
            reason = field(layout.g_reason, 1)
            if reason < layout.reason_count:
                self.state = text(number(layout.reasons + WORD * reason)) or self.state
            since = field(layout.g_waiting_since)
            minutes = (number(layout.clock) - since) // 60_000_000_000 if 0 < since < 1 << 63 else 0
        if minutes > 0:
            self.state += f', {minutes} minutes'
        if self.locked:
            self.state += ', locked to thread'

    def header(self):
        name = f' {{name: {self.name}}}' if self.name else ''
        return f'goroutine {self.id} [{self.state}]{name}'


def goroutines():
    layout = Layout()
    found = []
    chunk = number(layout.all_gs)
    while chunk:
        for i in range(number(chunk + layout.chunk_used, 4)):
            g = Goroutine(layout, chunk + layout.chunk_records + i * layout.g_size)
            if g.status not in (0, 6):
                found.append(g)
        chunk = number(chunk + layout.chunk_next)
    return sorted(found, key=lambda g: g.id)


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class ParkedUnwinder(gdb.unwinder.Unwinder):
    """While it has a goroutine, that one's registers follow on the innermost frame."""

    def __init__(self):
        super().__init__('weft parked goroutine')
        self.goroutine = None
        self.innermost = None  # sp and pc of the selected thread

    def __call__(self, pending):
        if self.goroutine is None:
            return None
        saved, pc_name, resume, sp_name, size = FRAMES[pending.architecture().name()]
        if (int(pending.read_register(sp_name)), int(pending.read_register(pc_name))) != self.innermost:
            return None
        sp = self.goroutine.sp
        word = gdb.lookup_type('unsigned long')
        info = pending.create_unwind_info(FrameId(pending.read_register(sp_name), pending.read_register(pc_name)))
        for register, offset in saved.items():
            info.add_saved_register(register, gdb.Value(number(sp + offset)).cast(word))
        info.add_saved_register(pc_name, gdb.Value(number(sp + resume)).cast(word))
        info.add_saved_register(sp_name, gdb.Value(sp + size).cast(word))
        return info


UNWINDER = ParkedUnwinder()
gdb.unwinder.register_unwinder(None, UNWINDER, replace=True)


def thread_of(tid):
    for thread in gdb.selected_inferior().threads():
        if tid in thread.ptid[1:]:
            return thread
    return None


def innermost():
    """Of the selected thread: sp and pc, and how many frames of gdb's that is, with those inlined into it."""
    frame = gdb.newest_frame()
    _, pc_name, _, sp_name, _ = FRAMES[frame.architecture().name()]
    registers = int(frame.read_register(sp_name)) % 2**64, int(frame.read_register(pc_name)) % 2**64
    count = 1
    while frame.type() == gdb.INLINE_FRAME and frame.older() is not None:
        frame = frame.older()
        count += 1
    return registers, count


def without_first_frames(listing, skipped):
    """Of a backtrace: what belongs to the goroutine, numbered from 0."""
    lines = []
    for line in listing.splitlines():
        if line.startswith('#'):
            n, rest = line[1:].split(None, 1)
            if int(n) < skipped:
                continue
            line = f'#{int(n) - skipped:<2} {rest}'
        lines.append(line)
    return '\n'.join(lines)


class In:
    """The frames of a goroutine, for the time of a command."""

    def __init__(self, g):
        self.g = g

    def run(self, command):
        before = gdb.selected_thread()
        if before is None:
            raise WeftError('weft: there is no process and no core file')
        try:
            if self.g.tid:
                thread = thread_of(self.g.tid)
                if thread is None:
                    return f'thread {self.g.tid}, which runs it, is not there'
                thread.switch()
                return gdb.execute(command, to_string=True)
            if self.g.sp & 1 or self.g.sp == 0:
                return 'it has not started yet'
            UNWINDER.innermost, skipped = innermost()
            UNWINDER.goroutine = self.g
            gdb.invalidate_cached_frames()
            words = command.split()
            if words[0] in ('bt', 'backtrace', 'where'):
                words[1:] = [str(int(w) + skipped) if w.isdigit() else w for w in words[1:]]
                return without_first_frames(gdb.execute(' '.join(words), to_string=True), skipped)
            gdb.execute(f'frame {skipped}', to_string=True)
            return gdb.execute(command, to_string=True)
        finally:
            UNWINDER.goroutine = None
            gdb.invalidate_cached_frames()
            before.switch()


def place(g):
    """The innermost frame that is the user's."""
    try:
        lines = In(g).run('bt 30').splitlines()
        handler = [i for i, line in enumerate(lines) if '<signal handler called>' in line]
        for line in lines[handler[-1] + 1 if handler else 0:]:
            if line.startswith('#') and 'weft::rt::' not in line and 'weft_switch' not in line:
                return line.split(None, 1)[1]
    except gdb.error:
        pass
    return ''


class InfoGoroutines(gdb.Command):
    """Lists the goroutines: id, state, name, and where they are.
A star marks the one that runs on the selected thread."""

    def __init__(self):
        super().__init__('info goroutines', gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        selected = gdb.selected_thread()
        for g in goroutines():
            here = selected is not None and g.tid in selected.ptid[1:] and g.tid
            gdb.write(f'{"*" if here else " "} {g.header()} {place(g)}\n')


class GoroutineCommand(gdb.Command):
    """goroutine N|all COMMAND: runs a command of gdb, say `bt`, on the frames of goroutine N."""

    def __init__(self):
        super().__init__('goroutine', gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        words = argument.split(None, 1)
        if len(words) != 2 or not (words[0] == 'all' or words[0].isdigit()):
            raise WeftError('usage: goroutine N COMMAND, or: goroutine all COMMAND')
        chosen = [g for g in goroutines() if words[0] in ('all', str(g.id))]
        if not chosen:
            raise WeftError(f'no goroutine {words[0]}')
        for g in chosen:
            gdb.write(f'{g.header()}:\n{In(g).run(words[1]).rstrip()}\n')
            if words[1].split()[0] in ('bt', 'backtrace', 'where') and g.id != 1 and g.created_pc:
                where = gdb.execute(f'info symbol {g.created_pc - 1}', to_string=True).split(' in section')[0]
                gdb.write(f'created by {where.strip()} in goroutine {g.parent}\n')
            gdb.write('\n')


InfoGoroutines()
GoroutineCommand()
