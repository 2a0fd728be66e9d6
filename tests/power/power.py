#!/usr/bin/env python3
"""Takes the power away from a real server, at many moments, and starts it on what the disk had left.

A recorder (record.c) is loaded into the server and writes down every change of its files, while clients
write items and remember what was acknowledged, and when. The server is killed once and started again on
its data, then ended in order, so that the record has the making of a store, work, recovery and an
orderly end. disk.py rebuilds from it what a disk would have had at a moment, in four modes. On each of
these images

- `partita check` must find everything whole (or no store at all, as long as nothing was acknowledged),
  and change nothing;
- the server must start;
- every container that was acknowledged is there, with every item as it was acknowledged last, or as the
  one write would have left it that was on its way. No other item is there.

A seed repeats the choice of moments, not the timing of the machine. Standard library and a C compiler.
"""

import argparse
import concurrent.futures
import hashlib
import http.client
import json
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "crash"))

from account import Client, Container  # noqa: E402
from disk import MODES, Disk, events  # noqa: E402

DATABASE = "power"
CONTAINERS = {"one": 400, "five": 30_000}
WRITERS = 6
ITEMS_PER_WRITER = 30
GONE = (OSError, http.client.HTTPException)

# One of so many moments is in the making of the store, which is a small part of the record.
EARLY_SHARE = 4


class Recorder:
    """The recorder's library and the files that it writes to."""

    def __init__(self, directory):
        self.root = os.path.join(directory, "disk")
        self.log = os.path.join(directory, "log")
        self.library = os.path.join(directory, "record.so")
        count = os.path.join(directory, "count")
        os.mkdir(self.root)
        with open(count, "wb") as file:
            file.truncate(16)
        with open(count, "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 16)
        compiler = os.environ.get("CC", "cc")
        source = os.path.join(HERE, "record.c")
        subprocess.run(
            [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
             self.library, source, "-ldl", "-lpthread"],
            check=True,
        )
        self.environment = {
            "LD_PRELOAD": self.library,
            "PARTITA_POWER_ROOT": self.root,
            "PARTITA_POWER_LOG": self.log,
            "PARTITA_POWER_COUNT": count,
        }

    def count(self):
        """How many changes there have been."""
        return struct.unpack("<Q", self.shared[:8])[0]


class Server:
    def __init__(self, binary, data, environment=None, arguments=()):
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", data]
        command += ["--throughput", "off", "--log-format", "json", "--log-level", "warn", *arguments]
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env=os.environ | (environment or {}),
        )
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            self.errors.seek(0)
            raise AssertionError(f"the server ended with {status}: {self.errors.read().strip()}")
        self.port = int(json.loads(line)["endpoint"].rstrip("/").rsplit(":", 1)[1])

    def end(self, how):
        self.process.send_signal(how)
        status = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.errors.close()
        return status


class Item:
    """Every state that was asked for, with the counts of changes before it was sent and when it was
    acknowledged (none if it never was)."""

    def __init__(self, container, name):
        self.container, self.name, self.pk = container, name, name
        self.states = [[0, 0, None]]

    def known(self):
        return self.states[-1][2]

    def allowed(self, count):
        """The states that an image after so many changes may have it in."""
        acknowledged = [state for state in self.states if state[1] is not None and state[1] <= count]
        last = max(self.states.index(state) for state in acknowledged)
        on_their_way = [state for state in self.states[last + 1:] if state[0] <= count]
        return [self.states[last][2]] + [state[2] for state in on_their_way]


class Writer(threading.Thread):
    """Writes to its own items until it is told to end or the server is gone."""

    def __init__(self, port, items, count, rng, ended):
        super().__init__()
        self.port, self.items, self.count, self.rng, self.ended = port, items, count, rng, ended
        self.written, self.surprise = 0, None

    def run(self):
        client = Client(self.port)
        try:
            while self.surprise is None and not self.ended.is_set():
                self.step(client)
        except GONE:
            pass
        finally:
            client.close()

    def step(self, client):
        item = self.rng.choice(self.items)
        container = Container(client, DATABASE, item.container)
        if item.known() is not None and self.rng.random() < 0.15:
            return self.write(item, None, lambda: container.delete(item.pk, item.name))
        n = self.rng.randrange(1 << 40)
        # Large ones now and then fill the write buffers, so that tables are written, too.
        text = self.rng.randbytes(self.rng.choice([20, 400, 9_000])).hex()
        body = {"id": item.name, "pk": item.pk, "u": f"{item.name}-{n}", "n": n, "text": text}
        return self.write(item, body, lambda: container.upsert(body))

    def write(self, item, outcome, send):
        state = [self.count(), None, outcome and outcome["n"]]
        item.states.append(state)
        answer = send()
        if answer.status in (200, 201, 204):
            state[1] = self.count()
            self.written += 1
        else:
            self.surprise = f"{item.name}: {answer.status}: {answer.body}"


class Record:
    """What was done and acknowledged while the recorder looked on."""

    def __init__(self, recorder, options):
        self.recorder, self.options = recorder, options
        # Two directories to be made: the name of the upper one must last as well.
        self.data = os.path.join(recorder.root, "new", "data")
        self.containers = {}  # name -> the count when it was acknowledged
        self.items = []
        self.rng = random.Random(options.seed)

    def make(self):
        server = self.start()
        self.ready = self.recorder.count()
        assert self.ready > 0, "nothing was recorded: is the server linked statically?"
        self.create_containers(server.port)
        for container in CONTAINERS:
            names = [f"{container}-{i}" for i in range(WRITERS // 2 * ITEMS_PER_WRITER)]
            self.items += [Item(container, name) for name in names]
        self.write(server, signal.SIGKILL)
        # What was on its way is settled now, one way or the other; who is to know must look.
        server = self.start()
        self.settle(server.port)
        self.write(server, signal.SIGTERM)

    def start(self):
        arguments = self.options.serve.split()
        return Server(self.options.binary, self.data, self.recorder.environment, arguments)

    def create_containers(self, port):
        client = Client(port)
        assert client.create_database(DATABASE).status == 201
        for name, throughput in CONTAINERS.items():
            assert client.create_container(DATABASE, name, throughput, "/u").status == 201
            self.containers[name] = self.recorder.count()
        client.close()

    def write(self, server, end):
        ended = threading.Event()
        writers = [
            Writer(
                server.port, self.items[i::WRITERS], self.recorder.count,
                random.Random(self.rng.random()), ended,
            )
            for i in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        time.sleep(self.options.seconds)
        if end == signal.SIGTERM:
            ended.set()
            for writer in writers:
                writer.join()
            self.idle()
        status = server.end(end)
        for writer in writers:
            writer.join()
            assert writer.surprise is None, writer.surprise
        assert end == signal.SIGKILL or status == 0, f"the server ended with {status} on SIGTERM"
        assert sum(writer.written for writer in writers) > 0, "nothing was written"

    def idle(self):
        """Lets the store tidy up: until it has changed something of its own accord, for a while."""
        before, deadline = self.recorder.count(), time.monotonic() + 5
        while self.recorder.count() < before + 20 and time.monotonic() < deadline:
            time.sleep(0.05)

    def settle(self, port):
        there = read_all(port, CONTAINERS)
        for item in self.items:
            found = there[item.container].get(item.name)
            state = item.states[-1]
            if state[1] is None:
                # It may be on the disk already, or not; from now on it is what was found.
                item.states.append([state[0], self.recorder.count(), found])


def read_all(port, containers):
    """What each container has: names of items, and their numbers."""
    client = Client(port)
    try:
        return {
            name: {item["id"]: item["n"] for item in Container(client, DATABASE, name).list()}
            for name in containers
        }
    finally:
        client.close()


class Image:
    """A disk as it was after so many changes, in one of the modes."""

    def __init__(self, record, directory, count, mode):
        self.record, self.count, self.mode = record, count, mode
        self.directory = directory
        self.data = os.path.join(directory, "new", "data")

    def __str__(self):
        return f"{self.mode} after {self.count} changes"

    def verify(self):
        try:
            self.check()
            self.serve()
            shutil.rmtree(self.directory)
            return None
        except (AssertionError, *GONE) as error:
            return f"{self}: {error} (kept: {self.directory})"

    def check(self):
        if not os.path.isdir(self.data):
            return
        before = digest(self.data)
        checked = subprocess.run(
            [self.record.options.binary, "check", "--data-dir", self.data],
            capture_output=True, text=True,
        )
        is_new = checked.returncode == 4 and "there is no store" in checked.stderr
        told = (checked.stdout + checked.stderr).strip()
        assert checked.returncode == 0 or (is_new and not self.acknowledged()), f"check: {told}"
        if not self.record.options.old:
            assert digest(self.data) == before, "the check changed something"

    def acknowledged(self):
        return [name for name, count in self.record.containers.items() if count <= self.count]

    def serve(self):
        server = Server(self.record.options.binary, self.data)
        try:
            there = read_all(server.port, self.acknowledged())
        finally:
            server.end(signal.SIGKILL)
        for container, found in there.items():
            for item in self.record.items:
                if item.container != container:
                    continue
                state, allowed = found.pop(item.name, None), item.allowed(self.count)
                assert state in allowed, f"{item.name} is {state}; it may be {allowed}"
            assert not found, f"{sorted(found)} are there and were never written"


def digest(directory):
    """A sum of all names and contents."""
    found = hashlib.blake2b()
    for path, directories, files in os.walk(directory):
        directories.sort()
        for name in sorted(files):
            whole = os.path.join(path, name)
            found.update(whole.encode() + b"\0")
            with open(whole, "rb") as file:
                found.update(hashlib.blake2b(file.read()).digest())
    return found.digest()


def moments(record, options, rng):
    """When the power goes: (count of changes, mode), in order."""
    total, early = record.recorder.count(), options.images // EARLY_SHARE
    counts = [rng.randrange(1, record.ready + 1) for _ in range(early)]
    counts += [rng.randrange(record.ready, total + 1) for _ in range(options.images - early)]
    modes = options.mode or MODES
    rng.shuffle(counts)
    return sorted((count, modes[i % len(modes)]) for i, count in enumerate(counts))


def verify_images(record, options, directory):
    """Follows the record and verifies an image at each moment. What failed."""
    wanted = moments(record, options, random.Random(options.seed))
    disk, log, failures, pending = Disk(record.recorder.root), events(record.recorder.log), [], []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for number, (count, mode) in enumerate(wanted):
            while disk.index < count:
                disk.apply(next(log))
            target = os.path.join(directory, f"image-{number}")
            disk.save(target, mode, options.seed + number)
            image = Image(record, target, count + options.late, mode)
            pending.append(pool.submit(image.verify))
            # Images are large: no more of them at a time than are looked at.
            while len(pending) > options.jobs:
                failures.append(pending.pop(0).result())
        failures += [one.result() for one in pending]
    return wanted, [failure for failure in failures if failure]


def main():
    parser = argparse.ArgumentParser(description="Takes the power away from a server.")
    parser.add_argument("--images", type=int, default=40, help="so many moments are tried")
    parser.add_argument("--seconds", type=float, default=3, help="of writing, twice")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mode", action="append", choices=MODES, help="only this (repeatable)")
    parser.add_argument("--serve", default="", help="more arguments for the recorded server")
    parser.add_argument(
        "--late", type=int, default=0,
        help="expect of an image what was true so many changes later: must fail, in every mode",
    )
    parser.add_argument("--old", action="store_true", help="a check may change its directory")
    options = parser.parse_args()
    options.binary = os.environ["PARTITA_BINARY"]
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    directory = tempfile.mkdtemp(prefix="partita-power-")
    record = Record(Recorder(directory), options)
    record.make()
    writes = sum(len(item.states) - 1 for item in record.items)
    print(f"seed {options.seed}: {writes} writes, {record.recorder.count()} changes of files", flush=True)
    wanted, failures = verify_images(record, options, directory)
    for mode in MODES:
        mine = [count for count, other in wanted if other == mode]
        failed = [failure for failure in failures if failure.startswith(mode)]
        print(f"{mode}: {len(mine)} images, {len(failed)} failed")
    for failure in failures:
        print(f"  {failure}")
    if failures:
        sys.exit(f"{len(failures)} of {len(wanted)} images failed; all is in {directory}")
    shutil.rmtree(directory)
    print(f"{len(wanted)} images of a disk after a loss of power: nothing acknowledged was lost")


if __name__ == "__main__":
    main()
