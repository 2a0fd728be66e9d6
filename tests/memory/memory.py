"""What a server and its children take of memory, and a cgroup for them where one can be made."""

import collections
import contextlib
import os
import threading

MB = 1 << 20
INTERVAL_SECONDS = 0.1


class Cgroup:
    """A cgroup with a limit of memory. `anon_bytes` is what its processes have of their own."""

    def __init__(self, path, limit_file, stat_name):
        self.path, self.limit_file, self.stat_name = path, limit_file, stat_name

    @staticmethod
    def make(limit_bytes):
        """None where this user or system does not let us."""
        name = f"partita-memory-{os.getpid()}"
        for root, limit_file, stat_name in (
            ("/sys/fs/cgroup", "memory.max", "anon"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "rss"),
        ):
            group = Cgroup(os.path.join(root, name), limit_file, stat_name)
            try:
                os.mkdir(group.path)
            except OSError:
                continue
            try:
                with open(os.path.join(group.path, limit_file), "w") as file:
                    file.write(str(limit_bytes))
                group.anon_bytes()
                return group
            except (OSError, KeyError):
                group.remove()
        return None

    def enter(self):
        """Called in the child before it becomes the server."""
        with open(os.path.join(self.path, "cgroup.procs"), "w") as file:
            file.write("0")

    def anon_bytes(self):
        with open(os.path.join(self.path, "memory.stat")) as file:
            lines = dict(line.split()[:2] for line in file)
        return int(lines[self.stat_name])

    def remove(self):
        try:
            os.rmdir(self.path)
        except OSError:
            pass


def children_of(pid):
    """The process and all below it."""
    parents = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                # The name of the program may have spaces and parentheses.
                fields = file.read().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        parents.setdefault(int(fields[1]), []).append(int(name))
    found, rest = [], [pid]
    while rest:
        one = rest.pop()
        found.append(one)
        rest.extend(parents.get(one, []))
    return found


def is_unborn(pid, server):
    """A process that is being started shares all of the server's memory until it is a program of
    its own, and would count as a second server."""
    try:
        with open(f"/proc/{pid}/cmdline") as own, open(f"/proc/{server}/cmdline") as servers:
            return pid != server and own.read() == servers.read()
    except OSError:
        return False


def pss_bytes(pid):
    """Its own memory, and its part of what it shares."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            line = next(line for line in file if line.startswith("Pss:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        return 0


class Watcher(threading.Thread):
    """Looks all the time, and remembers the most: of all, and while each of several things that go on
    at the same time did."""

    def __init__(self, pid, cgroup):
        super().__init__(daemon=True)
        self.pid, self.cgroup = pid, cgroup
        self.most, self.most_while, self.most_of = 0, "", collections.Counter()
        self.ended = threading.Event()
        self.lock, self.going_on = threading.Lock(), collections.Counter()

    @contextlib.contextmanager
    def doing(self, name):
        with self.lock:
            self.going_on[name] += 1
        try:
            yield
        finally:
            with self.lock:
                self.going_on[name] -= 1

    def look(self):
        if self.cgroup:
            now = self.cgroup.anon_bytes()
        else:
            now = sum(self.pss_bytes(pid) for pid in children_of(self.pid))
        with self.lock:
            names = [name for name, count in self.going_on.items() if count > 0]
        for name in names:
            self.most_of[name] = max(self.most_of[name], now)
        if now > self.most:
            self.most, self.most_while = now, ", ".join(sorted(names))
        return now

    def pss_bytes(self, pid):
        if is_unborn(pid, self.pid):
            return 0
        return pss_bytes(pid)

    def run(self):
        while not self.ended.wait(INTERVAL_SECONDS):
            self.look()
