"""What a server and its children take of memory, and a cgroup for them where one can be made."""

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


def pss_bytes(pid):
    """Its own memory, and its part of what it shares."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            line = next(line for line in file if line.startswith("Pss:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        return 0


class Watcher(threading.Thread):
    """Looks all the time, and remembers the most."""

    def __init__(self, pid, cgroup):
        super().__init__(daemon=True)
        self.pid, self.cgroup = pid, cgroup
        self.most, self.doing, self.most_while = 0, "", ""
        self.ended = threading.Event()

    def look(self):
        if self.cgroup:
            now = self.cgroup.anon_bytes()
        else:
            now = sum(pss_bytes(pid) for pid in children_of(self.pid))
        if now > self.most:
            self.most, self.most_while = now, self.doing
        return now

    def run(self):
        while not self.ended.wait(INTERVAL_SECONDS):
            self.look()
