"""What a disk has after a loss of power, rebuilt from what record.c wrote down.

A write is in the system's memory at first, and on the disk when the file was synced. A name is on the
disk when its directory was synced. What is on the disk beyond that, nobody promises; the modes are the
ways in which real file systems differ:

- strict: nothing but what was synced: names of synced directories, data of synced files.
- prefix: everything up to the moment, as after the end of the process alone.
- torn: the same, but the last write of each file since its last sync is there in part, by sectors.
- metadata: all names and lengths are there, data that were not synced are not: old bytes, or zeros.
"""

import os
import random
import struct

MODES = ["strict", "prefix", "torn", "metadata"]
SECTOR_BYTES = 512
HEAD = struct.Struct("<cQQII")


class Event:
    __slots__ = ("data", "handle", "kind", "number", "path")

    def __init__(self, kind, handle, number, path, data):
        self.kind, self.handle, self.number = kind, handle, number
        self.path, self.data = path, data


def events(log):
    """The events of a log. One that was cut off by the end of the process is left out."""
    with open(log, "rb") as file:
        while True:
            head = file.read(HEAD.size)
            if len(head) < HEAD.size:
                return
            kind, handle, number, path_bytes, data_bytes = HEAD.unpack(head)
            body = file.read(path_bytes + data_bytes)
            if len(body) < path_bytes + data_bytes:
                return
            path = body[:path_bytes].decode()
            yield Event(kind.decode(), handle, number, path, body[path_bytes:])


class Content:
    """The bytes of a file; what lies behind those that were written is zeros."""

    def __init__(self):
        self.bytes, self.length = bytearray(), 0

    def write(self, offset, data):
        if offset > len(self.bytes):
            self.bytes.extend(bytes(offset - len(self.bytes)))
        self.bytes[offset:offset + len(data)] = data
        self.length = max(self.length, offset + len(data))

    def truncate(self, length):
        del self.bytes[length:]
        self.length = length

    def copy(self):
        other = Content()
        other.bytes, other.length = bytearray(self.bytes), self.length
        return other

    def apply(self, change):
        if change[0] == "write":
            self.write(change[1], change[2])
        else:
            self.truncate(change[1])

    def save(self, path):
        with open(path, "wb") as file:
            file.write(self.bytes)
            file.truncate(self.length)


class File:
    def __init__(self, inode=None):
        self.inode = inode
        self.cached, self.durable = Content(), Content()
        self.pending = []  # (index, change)

    def change(self, index, *change):
        self.cached.apply(change)
        self.pending.append((index, change))

    def sync(self, begun):
        while self.pending and self.pending[0][0] < begun:
            self.durable.apply(self.pending.pop(0)[1])

    def image(self, mode, rng):
        if mode == "strict":
            return self.durable
        if mode == "prefix" or not self.pending:
            return self.cached
        if mode == "metadata":
            content = self.durable.copy()
            for _, change in self.pending:
                if change[0] == "truncate":
                    content.truncate(change[1])
            if content.length > self.cached.length:
                content.truncate(self.cached.length)
            content.length = self.cached.length
            return content
        last = max(i for i, (_, change) in enumerate(self.pending))
        content = self.durable.copy()
        for i, (_, change) in enumerate(self.pending):
            if i < last or change[0] == "truncate":
                content.apply(change)
                continue
            _, offset, data = change
            length = content.length
            for at, sector in sectors(offset, data):
                if rng.random() < 0.5:
                    content.write(at, sector)
            # The length may be there although the data are not.
            if rng.random() < 0.5:
                content.length = max(content.length, length, offset + len(data))
        return content


def sectors(offset, data):
    """The parts of a write by the sectors of the disk that they lie in."""
    at = 0
    while at < len(data):
        end = at + SECTOR_BYTES - (offset + at) % SECTOR_BYTES
        yield offset + at, data[at:end]
        at = end


class Directory:
    def __init__(self):
        self.inode = None
        self.cached, self.durable = {}, {}
        self.pending = []

    def change(self, index, name, node):
        """Gives a node a name, or takes the name away."""
        apply_name(self.cached, name, node)
        self.pending.append((index, name, node))

    def sync(self, begun):
        while self.pending and self.pending[0][0] < begun:
            _, name, node = self.pending.pop(0)
            apply_name(self.durable, name, node)


def apply_name(names, name, node):
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


class Disk:
    """Follows a log. The root is there from the beginning and empty."""

    def __init__(self, root):
        self.root_path, self.root = root, Directory()
        self.handles = {}
        self.index = 0

    def apply(self, event):
        getattr(self, "on_" + event.kind)(event)
        self.index += 1

    # Names.

    def find(self, path):
        """The directory of a path, and the last name of it."""
        names = path[len(self.root_path):].strip("/").split("/")
        directory = self.root
        for name in names[:-1]:
            directory = directory.cached[name]
        return directory, names[-1]

    def on_O(self, event):
        if event.path == self.root_path:
            node = self.root
        else:
            directory, name = self.find(event.path)
            node = directory.cached.get(name)
            if node is not None and node.inode is None:
                node.inode = event.number
            if node is None or node.inode != event.number:
                node = self.renamed_unseen(directory, name, event)
        self.handles[event.handle] = node
        if b"t" in event.data and node.cached.length > 0:
            node.change(self.index, "truncate", 0)

    def renamed_unseen(self, directory, name, event):
        """A file has a name that nobody gave it: it is new, or had another one in its directory."""
        former = [n for n, other in directory.cached.items() if other.inode == event.number]
        if former:
            node = directory.cached[former[0]]
            directory.change(self.index, former[0], None)
        elif b"c" in event.data:
            node = File(event.number)
        else:
            raise AssertionError(f"{event.path} was not seen to be made")
        directory.change(self.index, name, node)
        return node

    def on_M(self, event):
        directory, name = self.find(event.path)
        directory.change(self.index, name, Directory())

    def on_U(self, event):
        directory, name = self.find(event.path)
        directory.change(self.index, name, None)

    on_D = on_U

    def on_R(self, event):
        directory, name = self.find(event.path)
        to, new_name = self.find(event.data.decode())
        node = directory.cached[name]
        directory.change(self.index, name, None)
        to.change(self.index, new_name, node)

    def on_L(self, event):
        directory, name = self.find(event.path)
        to, new_name = self.find(event.data.decode())
        to.change(self.index, new_name, directory.cached[name])

    # Data.

    def on_W(self, event):
        self.handles[event.handle].change(self.index, "write", event.number, event.data)

    def on_T(self, event):
        self.handles[event.handle].change(self.index, "truncate", event.number)

    def on_S(self, event):
        self.handles[event.handle].sync(event.number)

    # Images.

    def save(self, target, mode, seed):
        """Writes what the disk would have now into a directory."""
        save(self.root, target, mode, random.Random(seed))


def save(directory, target, mode, rng):
    os.makedirs(target, exist_ok=True)
    names = directory.durable if mode == "strict" else directory.cached
    for name, node in sorted(names.items()):
        path = os.path.join(target, name)
        if isinstance(node, Directory):
            save(node, path, mode, rng)
        else:
            node.image(mode, rng).save(path)
