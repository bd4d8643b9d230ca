#!/usr/bin/env python3
"""Which features of the kernel weft finds here, what it does without them, and what that costs.

Part of `./weft doctor`. Each feature is tried, as the library tries it when it starts, not guessed from the
kernel's version: containers and sandboxes deny what the kernel has.
"""
import ctypes
import errno
import mmap
import os
import platform
import re

libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {  # system calls: x86-64, aarch64
    'membarrier': (324, 283), 'io_uring_setup': (425, 425), 'io_uring_register': (427, 427),
    'pidfd_open': (434, 434),
    'process_madvise': (440, 440), 'rt_tgsigqueueinfo': (297, 240), 'epoll_pwait2': (441, 441)}
COLUMN = 0 if platform.machine() == 'x86_64' else 1
PAGE = mmap.PAGESIZE


def call(name, *args):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(NUMBERS[name][COLUMN]), *[ctypes.c_long(a) for a in args])
    return result, ctypes.get_errno()


def row(feature, state, otherwise):
    print(f'  {feature:<34} {state}')
    if otherwise:
        print(f'  {"":<34}   {otherwise}')


def reason(code):
    return errno.errorcode.get(code, str(code))


def guards():
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    page = libc.mmap(None, PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    ctypes.memset(page, 1, 1)
    accepted = libc.madvise(page, PAGE, 102) == 0
    code = ctypes.get_errno()
    reading, writing = os.pipe()
    held = accepted and libc.write(writing, page, 1) < 0 and ctypes.get_errno() == errno.EFAULT
    os.close(reading), os.close(writing)
    limit = int(open('/proc/sys/vm/max_map_count').read())
    row('stack guards by advice', 'yes' if held else f'no ({"accepted, guards nothing" if accepted else reason(code)})',
        None if held else f'mprotect instead: two mappings a stack, so guards for about {limit // 2} goroutines; '
        'stacks beyond that have a canary only')


RING_FEATURES = 2 | 4 | 8  # nothing dropped, stable after submission, the descriptor's own position
RING_OPERATIONS = (0, 1, 2, 3, 14, 17, 22, 23)  # nop, readv, writev, fsync, cancel, fallocate, read, write


def ring_state():
    """What io_uring.cc would find: 'yes', or why not."""
    if re.search(r'(^|,)iouring=0(,|$)', os.environ.get('WEFTDEBUG', '')):
        return 'no (WEFTDEBUG=iouring=0)'
    parameters = ctypes.create_string_buffer(120)
    ring, code = call('io_uring_setup', 4, ctypes.addressof(parameters))
    if ring < 0:
        sysctl = '/proc/sys/kernel/io_uring_disabled'
        disabled = open(sysctl).read().strip() if os.path.exists(sysctl) else '0'
        return f'no ({reason(code)}{f"; kernel.io_uring_disabled is {disabled}" if disabled != "0" else ""})'
    probe = ctypes.create_string_buffer(16 + 64 * 8)
    result, code = call('io_uring_register', ring, 8, ctypes.addressof(probe), 64)
    os.close(ring)
    missing = [op for op in RING_OPERATIONS if result < 0 or op > probe.raw[0] or not probe.raw[16 + op * 8 + 2] & 1]
    features = int.from_bytes(parameters.raw[20:24], 'little')
    if missing or features & RING_FEATURES != RING_FEATURES:
        return f'no (an old kernel: operations {missing} and features {RING_FEATURES & ~features:#x} are missing)'
    return 'yes'


def rings():
    state = ring_state()
    row('io_uring', state, None if state == 'yes' else
        'threads wait for files: a hand-off, some 10 us, for each call that blocks, and a thread for each at once')


def doctor():
    guards()
    result, code = call('membarrier', 0, 0, 0)
    expedited = result >= 0 and result & 8
    row('membarrier (private expedited)', 'yes' if expedited else f'no ({reason(code)})',
        None if expedited else 'full fences on the fast paths: a wake-up costs about 5 ns more')
    result, code = call('process_madvise', -1, 0, 0, 0, 0)
    there = code != errno.ENOSYS and code != errno.EPERM
    row('process_madvise', 'yes' if there else f'no ({reason(code)})',
        None if there else 'guards are installed one by one: 0.8 us a new stack instead of 0.5')
    rings()
    result, code = call('epoll_pwait2', -1, 0, 0, 0, 0)
    there = code not in (errno.ENOSYS, errno.EPERM)
    row('epoll_pwait2', 'yes' if there else f'no ({reason(code)})',
        None if there else 'timers that end the wait of an idle thread are up to 1 ms late')
    result, code = call('pidfd_open', os.getpid(), 0)
    if result >= 0:
        os.close(result)
    row('pidfd', 'yes' if result >= 0 else f'no ({reason(code)})',
        None if result >= 0 else 'waiting for a child process blocks a thread')
    result, code = call('rt_tgsigqueueinfo', os.getpid(), os.getpid(), 0, 0)
    there = code not in (errno.ENOSYS, errno.EPERM)
    row('rt_tgsigqueueinfo', 'yes' if there else f'no ({reason(code)})',
        None if there else 'plain tgkill: preemption works; stacks of running goroutines are missing in reports')
    readable = os.path.exists('/proc/self/task') and os.access(f'/proc/self/task/{os.getpid()}/syscall', os.R_OK)
    row('/proc/self/task/*/syscall', 'yes' if readable else 'no',
        None if readable else 'no stacks of goroutines in system calls in reports')
    seccomp = re.search(r'^Seccomp:\s*(\d)', open('/proc/self/status').read(), re.M)
    if seccomp and seccomp.group(1) != '0':
        row('seccomp', f'mode {seccomp.group(1)}', 'a filter is active: what it denies is "no (EPERM)" above')
    thp = '/sys/kernel/mm/transparent_hugepage/enabled'
    if os.path.exists(thp):
        row('transparent huge pages', re.search(r'\[(\w+)\]', open(thp).read()).group(1), None)
    row('core files', open('/proc/sys/kernel/core_pattern').read().strip(), None)


if __name__ == '__main__':
    doctor()
