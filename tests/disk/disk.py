#!/usr/bin/env python3
"""Fills the disk under a real server and frees it, again and again, in one process; loses nothing.

Each round fills the disk in one way, while writers write to their own items, and frees it in another:

- refused: a file of somebody else's leaves little room, and new writes are refused with 507 that
  names the directory and the bytes. Reads and deletes go on. The file is removed.
- overrun: somebody else takes all there is in one go. Whatever then fails, the store opens itself
  again; writes are 503 or 507 meanwhile, and each says truly whether it was done. The file is removed.
- container: the server's own data fill the disk; a container is deleted.
- items: the same; the items of one partition key are deleted, and merges must give their space back.

After each round a write is accepted without a restart, and everything acknowledged is there: each item
as it was acknowledged last, or as one of the writes whose end was unknown, and the container's feed
lists exactly these. At the end the server, still the same process, stops cleanly and `partita check`
finds its data whole. disk.py DIRECTORY --rounds N --seed N; standard library only.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "crash"))

from account import Client, Container  # noqa: E402

DATABASE = "disk"
WRITERS = 4
ITEMS_PER_WRITER = 25
RESERVE_MB = 24
MB = 1 << 20
PATIENCE_SECONDS = 120
KINDS = ["refused", "overrun", "container", "overrun", "items"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    disk = Disk(arguments.directory, random.Random(arguments.seed))
    disk.start()
    try:
        for number in range(arguments.rounds):
            disk.round(number, KINDS[number % len(KINDS)])
        disk.stop()
    finally:
        disk.end()
    print(
        f"{arguments.rounds} rounds in one process: {disk.acknowledged} writes acknowledged, "
        f"{disk.refused} refused (507), {disk.unavailable} told to come back (503), "
        f"{disk.unknown} of unknown end, store opened again {disk.reopenings} times, 0 lost"
    )


class Item:
    """What it was acknowledged to be, and what it may be besides."""

    def __init__(self, pk, name):
        self.pk, self.name = pk, name
        self.known, self.possible = None, []


class Writer(threading.Thread):
    """Writes to its own items until it is told to stop; at most until the first refusal, if asked."""

    def __init__(self, disk, items, seed, until_refused):
        super().__init__()
        self.disk, self.items, self.rng = disk, items, random.Random(seed)
        self.until_refused, self.stopped = until_refused, threading.Event()
        self.counts, self.surprise, self.message = {}, None, None

    def run(self):
        client = Client(self.disk.port)
        container = Container(client, DATABASE, "kept")
        try:
            while not self.stopped.is_set() and self.surprise is None:
                status = self.step(container)
                if status == 507 and self.until_refused:
                    return
                if status in (503, 507):
                    time.sleep(0.01)
        finally:
            client.close()

    def step(self, container):
        item = self.rng.choice(self.items)
        size = self.rng.choice([10, 1_000, 20_000, 200_000])
        body = {"id": item.name, "pk": item.pk, "u": f"{item.name}-{self.rng.random()}"}
        body["text"] = self.rng.randbytes(size // 2).hex()
        answer = container.upsert(body)
        self.counts[answer.status] = self.counts.get(answer.status, 0) + 1
        if answer.status in (200, 201):
            item.known, item.possible = body, []
        elif answer.status == 507:
            self.message = answer.body["message"]
        elif answer.status == 503:
            is_unknown = "Whether this write was done" in answer.body["message"]
            if is_unknown:
                item.possible.append(body)
                self.counts["unknown"] = self.counts.get("unknown", 0) + 1
            elif "was not done" not in answer.body["message"]:
                self.surprise = answer.body
        else:
            self.surprise = (answer.status, answer.body)
        return answer.status


class Disk:
    def __init__(self, directory, rng):
        self.directory, self.rng = directory, rng
        self.data = os.path.join(directory, "data")
        self.filler = os.path.join(directory, "somebody-elses")
        self.log = open(os.environ.get("PARTITA_DISK_LOG", os.devnull), "w")
        self.process, self.port = None, None
        self.items = [
            Item(f"pk-{n % 7}", f"item-{n}") for n in range(WRITERS * ITEMS_PER_WRITER)
        ]
        self.acknowledged = self.refused = self.unavailable = self.unknown = self.reopenings = 0

    # The server

    def start(self):
        command = [os.environ["PARTITA_BINARY"], "serve", "--listen", "127.0.0.1:0"]
        command += ["--data-dir", self.data, "--disk-reserve-mb", str(RESERVE_MB)]
        command += ["--cache-mb", "16", "--throughput", "off", "--alert-seconds", "1"]
        command += ["--log-format", "json", "--log-level", "info"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        line = self.process.stdout.readline()
        assert line, f"the server ended with {self.process.wait()} before it was ready"
        self.port = int(json.loads(line)["endpoint"].rstrip("/").rsplit(":", 1)[1])
        client = Client(self.port)
        assert client.create_database(DATABASE).status == 201
        assert client.create_container(DATABASE, "kept", 30_000, "/u").status == 201
        client.close()

    def stop(self):
        assert self.process.poll() is None, "it is still the process that was started"
        self.reopenings = self.status()["database"]["reopenings"]
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=PATIENCE_SECONDS)
        assert status == 0, f"the server ended with {status} on SIGTERM"
        command = [os.environ["PARTITA_BINARY"], "check", "--data-dir", self.data]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status(self):
        return json.loads(self.get("/status")[1])

    # What a disk has

    def free(self):
        found = os.statvfs(self.directory)
        return found.f_bavail * found.f_frsize

    def take(self, leave):
        """Somebody else takes all but so many bytes."""
        size = os.path.getsize(self.filler) if os.path.exists(self.filler) else 0
        with open(self.filler, "ab") as file:
            size = max(size + self.free() - leave, 1)
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError:
                pass

    def take_all(self):
        """The same to the last block, for as long as the store gives anything up."""
        block = b"x" * 65_536
        with open(self.filler, "ab", buffering=0) as file:
            for _ in range(20_000):
                try:
                    file.write(block)
                except OSError:
                    if self.free() == 0 and self.status()["database"]["disk"]["held_bytes"] == 0:
                        return
                    time.sleep(0.01)

    def give_back(self):
        if os.path.exists(self.filler):
            os.remove(self.filler)

    # A round

    def round(self, number, kind):
        begun = time.monotonic()
        getattr(self, "round_" + kind)()
        self.await_write()
        self.check_items()
        took = time.monotonic() - begun
        level = self.status()["database"]["disk"]["level"]
        print(f"round {number} ({kind}): {took:.1f} s, the disk is {level} now", flush=True)

    def writers(self, until_refused):
        lists = [self.items[n::WRITERS] for n in range(WRITERS)]
        writers = [Writer(self, items, self.rng.random(), until_refused) for items in lists]
        for writer in writers:
            writer.start()
        return writers

    def join(self, writers):
        for writer in writers:
            writer.join(PATIENCE_SECONDS)
            assert not writer.is_alive(), "a writer waits for ever"
            assert writer.surprise is None, writer.surprise
            counts = writer.counts
            self.acknowledged += counts.get(200, 0) + counts.get(201, 0)
            self.refused += counts.get(507, 0)
            self.unavailable += counts.get(503, 0)
            self.unknown += counts.get("unknown", 0)

    def round_refused(self):
        self.take(RESERVE_MB * MB + 12 * MB)
        writers = self.writers(until_refused=True)
        self.join(writers)
        for writer in writers:
            for part in ("Disk full", self.data, "bytes free", "--disk-reserve-mb"):
                assert part in writer.message, writer.message
        self.check_full()
        self.give_back()

    def check_full(self):
        """New writes are refused; reads, queries and deletes go on, and everybody is told."""
        status = self.status()["database"]
        assert status["healthy"] and status["disk"]["level"] in ("full", "exhausted"), status
        code, text = self.get("/ready")
        assert code == 200 and "disk full" in text, (code, text)
        assert "partita_disk_writes_refused 1" in self.get("/metrics")[1]
        client = Client(self.port)
        kept = Container(client, DATABASE, "kept")
        assert client.create_container(DATABASE, "more", 400, "/u").status == 507
        for item in [item for item in self.items if item.known and not item.possible][:5]:
            assert kept.read(item.pk, item.name).status == 200
            deleted = kept.delete(item.pk, item.name)
            assert deleted.status == 204, (deleted.status, deleted.body)
            item.known = None
        client.close()

    def round_overrun(self):
        self.take(RESERVE_MB * MB + 40 * MB)
        writers = self.writers(until_refused=False)
        self.take_all()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all({503, 507} & set(writer.counts) for writer in writers):
            assert time.monotonic() < deadline, "nobody is told that the disk is full"
            time.sleep(0.01)
        for writer in writers:
            writer.stopped.set()
        self.join(writers)
        self.give_back()

    def round_container(self):
        self.fill_with_data("bulk")
        client = Client(self.port)
        answer = client.send("DELETE", "colls", f"dbs/{DATABASE}/colls/bulk", f"dbs/{DATABASE}/colls/bulk")
        assert answer.status == 204, (answer.status, answer.body)
        client.close()

    def round_items(self):
        self.fill_with_data("many")
        client = Client(self.port)
        link = f"dbs/{DATABASE}/colls/many"
        for pk in range(4):
            header = {"x-ms-documentdb-partitionkey": json.dumps([f"pk-{pk}"])}
            answer = client.send(
                "POST", "partitionkey", f"{link}/operations/partitionkeydelete", link, None, **header
            )
            assert answer.status == 200, (answer.status, answer.body)
        client.close()
        self.await_write()
        client = Client(self.port)
        assert client.send("DELETE", "colls", link, link).status == 204
        client.close()

    def fill_with_data(self, name):
        """Large items in a container of their own, until they are refused."""
        client = Client(self.port)
        made = client.create_container(DATABASE, name, 400, "/u")
        assert made.status == 201, (made.status, made.body)
        container = Container(client, DATABASE, name)
        for n in range(10_000):
            text = self.rng.randbytes(250_000).hex()
            answer = container.create({"id": f"{n}", "pk": f"pk-{n % 4}", "u": f"{n}", "text": text})
            if answer.status == 507:
                client.close()
                return self.check_full()
            assert answer.status == 201, (answer.status, answer.body)
        raise AssertionError("the disk does not get full")

    def await_write(self):
        """Waits until a write is accepted: the server notices by itself that there is room."""
        item, deadline = self.items[0], time.monotonic() + PATIENCE_SECONDS
        client = Client(self.port)
        kept = Container(client, DATABASE, "kept")
        while True:
            body = {"id": item.name, "pk": item.pk, "u": f"{self.rng.random()}", "text": ""}
            answer = kept.upsert(body)
            if answer.status in (200, 201):
                item.known, item.possible = body, []
                self.acknowledged += 1
                client.close()
                return
            assert answer.status in (503, 507), (answer.status, answer.body)
            if "Whether this write was done" in answer.body["message"]:
                item.possible.append(body)
            assert time.monotonic() < deadline, answer.body
            time.sleep(0.02)

    def check_items(self):
        client = Client(self.port)
        kept = Container(client, DATABASE, "kept")
        for item in self.items:
            answer = kept.read(item.pk, item.name)
            assert answer.status in (200, 404), (answer.status, answer.body)
            found = None
            if answer.status == 200:
                found = {key: value for key, value in answer.body.items() if key[0] != "_"}
            assert found == item.known or found in item.possible, (
                f"LOST: {item.name} is {str(found)[:200]}, not {str(item.known)[:200]}"
            )
            item.known, item.possible = found, []
        listed = sorted(item["id"] for item in kept.list())
        assert listed == sorted(item.name for item in self.items if item.known), "index and items"
        client.close()


if __name__ == "__main__":
    main()
