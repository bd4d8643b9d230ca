"""A server under test as a process: it prints its address as its first line, and is killed at the end."""
import os
import pathlib
import resource
import subprocess


class Server:
    def __init__(self, program, procs, *sizes):
        raise_descriptor_limit()
        self.process = subprocess.Popen([program, procs, *sizes], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise SystemExit(f'{program} has not started')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def cpu_seconds(self):
        """Processor time that it has had, all threads together."""
        fields = self._proc('stat').rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def memory(self, field='VmRSS'):
        for line in self._proc('status').splitlines():
            if line.startswith(field + ':'):
                return int(line.split()[1]) * 1024
        raise SystemExit(f'no {field} in /proc')

    def _proc(self, name):
        return pathlib.Path(f'/proc/{self.process.pid}/{name}').read_text()


def raise_descriptor_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
