# Goroutines in lldb, of a running program or of a core file. After `command script import weft_lldb.py`, which comes
# before `run`, `attach` or `target create --core CORE PROGRAM`:
#
#   goroutines               one line each: id, state, name, where
#   goroutine N bt           the stack of goroutine N; `goroutine all bt`: of all of them
#
# It is also a plug-in for operating systems: to lldb, parked goroutines are threads beside the real ones, whose ids begin
# at 2^32, so that `thread select`, `frame variable` and the like work on them. What is where says weft_debug_layout, as
# to weft-gdb.py, which has more about it. Nothing is written into the program.
import struct

import lldb

FIRST_TID = 1 << 32
STATES = {0: 'idle', 1: 'runnable', 2: 'running', 3: 'syscall', 4: 'waiting', 6: 'dead', 9: 'preempted'}
FIELDS = ('magic', 'version', 'all_gs', 'chunk_next', 'chunk_used', 'chunk_records', 'g_size', 'g_sp', 'g_m',
          'g_status', 'g_reason', 'g_goid', 'g_parent', 'g_created_pc', 'g_name', 'g_locked_m', 'g_waiting_on',
          'g_waiting_since', 'm_id', 'm_tid', 'reasons', 'reason_count', 'clock', 'g_frozen',
          'm_lent_once', 'm_locked_by_user')
MAGIC, VERSION = 0x4244476674666577, 3
# Of a suspended frame (src/fiber/switch_*.S): registers with offset and number in DWARF, and its size, which is
# where the stack pointer goes.
FRAMES = {
    'x86_64': ({'rbx': (40, 3), 'rbp': (48, 6), 'r12': (32, 12), 'r13': (24, 13), 'r14': (16, 14), 'r15': (8, 15),
                'rip': (56, 16)}, 'rsp', 7, 64),
    'aarch64': ({**{f'x{n}': (16 + 8 * (n - 19), n) for n in range(19, 29)}, 'fp': (0, 29), 'pc': (8, 32)},
                'sp', 31, 176),
}
GENERIC = {name: {'generic': kind} for kind, names in
           {'pc': ('rip', 'pc'), 'sp': ('rsp', 'sp'), 'fp': ('rbp', 'fp')}.items() for name in names}


class WeftError(Exception):
    pass


class Program:
    def __init__(self, process):
        self.process = process
        found = process.GetTarget().FindSymbols('weft_debug_layout')
        if found.GetSize() == 0:
            raise WeftError('weft: this program has no symbol weft_debug_layout: not linked with weft, or stripped')
        at = found.GetContextAtIndex(0).GetSymbol().GetStartAddress().GetLoadAddress(process.GetTarget())
        self.__dict__.update(zip(FIELDS, struct.unpack(f'<{len(FIELDS)}Q', self.memory(at, 8 * len(FIELDS)))))
        if (self.magic, self.version) != (MAGIC, VERSION):
            raise WeftError('weft: the runtime has not started yet' if self.magic == 0 else
                            'weft: this script is for another version of the library')

    def memory(self, address, size):
        error, target = lldb.SBError(), self.process.GetTarget()  # which reads constants from the file: cores lack them
        read = target.ReadMemory(lldb.SBAddress(address, target), size, error)
        if error.Fail() or read is None or len(read) != size:
            raise WeftError(f'weft: {error.GetCString() or "there is no memory at " + hex(address)}')
        return read

    def number(self, address, size=8):
        return int.from_bytes(self.memory(address, size), 'little')

    def text(self, address):
        found = b''
        while address and b'\0' not in found and len(found) < 256:
            found += self.memory(address + len(found), 16)
        return found.split(b'\0')[0].decode(errors='replace')

    def goroutines(self):
        found, chunk = [], self.number(self.all_gs)
        while chunk:
            for i in range(self.number(chunk + self.chunk_used, 4)):
                found.append(Goroutine(self, chunk + self.chunk_records + i * self.g_size))
            chunk = self.number(chunk + self.chunk_next)
        return sorted((g for g in found if g.status not in (0, 6)), key=lambda g: g.id)


class Goroutine:
    def __init__(self, program, at):
        record = program.memory(at, program.g_size)

        def field(offset, size=8):
            return int.from_bytes(record[offset:offset + size], 'little')

        self.id, self.status = field(program.g_goid), field(program.g_status, 1)
        self.sp, self.parent, self.created_pc = (field(program.g_sp), field(program.g_parent),
                                                 field(program.g_created_pc))
        name, m, reason = program.text(field(program.g_name)), field(program.g_m), field(program.g_reason, 1)
        on_thread = m and (field(program.g_frozen, 1) or self.status in (2, 3, 9))
        self.tid = program.number(m + program.m_tid, 4) if on_thread else FIRST_TID + self.id
        self.parked = not on_thread and self.sp != 0 and self.sp & 1 == 0
        self.started = on_thread or self.parked
        state = STATES.get(self.status, str(self.status))
        if self.status == 4 and reason < program.reason_count:
            state = program.text(program.number(program.reasons + 8 * reason)) or state
        self.header = f'goroutine {self.id} [{state}]' + (f' {{name: {name}}}' if name else '')


class OperatingSystemPlugIn:
    """What lldb asks when the program has stopped."""

    def __init__(self, process):
        self.process = process
        self.frame = FRAMES.get(process.GetTarget().GetTriple().split('-')[0].replace('arm64', 'aarch64'))
        self.parked, self.stop = {}, None
        signals = process.GetUnixSignals()
        preemption = signals.GetSignalNumberFromName('SIGURG')
        signals.SetShouldStop(preemption, False)
        signals.SetShouldNotify(preemption, False)

    def get_register_info(self):
        saved, sp_name, sp_dwarf, _ = self.frame
        rows = [(name, dwarf) for name, (_, dwarf) in saved.items()] + [(sp_name, sp_dwarf)]
        registers = [{'name': name, 'bitsize': 64, 'offset': 8 * i, 'encoding': 'uint', 'format': 'hex', 'set': 0,
                      'gcc': dwarf, 'dwarf': dwarf, **GENERIC.get(name, {})} for i, (name, dwarf) in enumerate(rows)]
        return {'sets': ['saved by the switch'], 'registers': registers}

    def get_thread_info(self):
        if self.stop != self.process.GetStopID():  # it asks several times
            self.parked, self.stop = {}, self.process.GetStopID()
            try:
                program = Program(self.process)
                for g in program.goroutines() if self.frame else []:
                    self.add(program, g)
            except WeftError:
                pass
        return [{'tid': g.tid, 'name': g.header, 'state': 'stopped', 'stop_reason': 'none'}
                for g, _ in self.parked.values()]

    def add(self, program, g):
        """One whose frame cannot be read has no stack to show: it is on its way there, or a core file lacks it."""
        saved, _, _, size = self.frame
        try:
            if g.parked:
                words = struct.unpack(f'<{size // 8}Q', program.memory(g.sp, size))
                self.parked[g.tid] = g, [words[at // 8] for at, _ in saved.values()] + [g.sp + size]
        except WeftError:
            pass

    def get_register_data(self, tid):
        _, registers = self.parked[tid]
        return struct.pack(f'<{len(registers)}Q', *registers)


def place(address):
    """The function there, and its line."""
    name = address.GetSymbol().GetName() or hex(address.GetFileAddress() if address.GetSection() else address.GetOffset())
    line = address.GetLineEntry()
    return f'{name} at {line.GetFileSpec().GetFilename()}:{line.GetLine()}' if line.IsValid() else name


def goroutines(debugger, command, context, result, _):
    """goroutines: lists the goroutines, with id, state, name, and where they are."""
    for g in chosen(context, 'all', result):
        frames = context.GetProcess().GetThreadByID(g.tid) if g.started else []
        users = (f.GetPCAddress() for f in frames
                 if 'weft::rt::' not in (f.GetPCAddress().GetSymbol().GetName() or ''))
        print(f'  {g.header} {next(map(place, users), "")}', file=result)


def goroutine(debugger, command, context, result, _):
    """goroutine N|all bt: the stack of goroutine N, or of all."""
    words = command.split()
    if len(words) != 2 or words[1] != 'bt':
        return result.SetError('usage: goroutine N bt, or: goroutine all bt')
    for g in chosen(context, words[0], result):
        print(f'{g.header}:', file=result)
        for frame in context.GetProcess().GetThreadByID(g.tid) if g.started else []:
            print(f'    {frame}', file=result)
        if g.id != 1 and g.created_pc:
            made = context.GetTarget().ResolveLoadAddress(g.created_pc - 1)
            print(f'created by {place(made)} in goroutine {g.parent}', file=result)
        print('', file=result)


def chosen(context, which, result):
    try:
        found = [g for g in Program(context.GetProcess()).goroutines() if which in ('all', str(g.id))]
    except WeftError as e:
        result.SetError(str(e))
        return []
    if not found:
        result.SetError(f'no goroutine {which}')
    return found


def __lldb_init_module(debugger, _):
    for command in (f'settings set target.process.python-os-plugin-path "{__file__}"',  # imports it once more
                    f'command script add -f {__name__}.goroutines goroutines',
                    f'command script add -f {__name__}.goroutine goroutine'):
        debugger.GetCommandInterpreter().HandleCommand(command, lldb.SBCommandReturnObject())
