#!/usr/bin/env python3
"""Kills a real server with SIGKILL, many times, while it is being written to; loses nothing.

Each round: several writers create, replace, upsert, patch and delete items of their own, and all of
them increment one shared counter, over HTTP and durably. After a random moment the process is killed
and started again on the same data. Then everything that was acknowledged must be there, nothing that
was deleted may be back, and a write that was cut off must be there wholly or not at all:

- each item is in the state of its last acknowledged write, or of the one write that was in flight;
- the feed of the container lists exactly the items that exist;
- the counter is at least the acknowledged increments, at most these and the unanswered ones;
- the unique-key index agrees with the items: the value of an item that exists is taken, the value of
  one that is gone is free;
- readers of the change feed that are cut off with the server and go on from where they wrote down that
  they were have been told every item as it is, changes of one partition key in their order, and none
  twice but after a cut (follower.py).

Meanwhile partitions are split and merged, so that cuts fall into every state of a move.

Half of the items live in a container of one partition, half in one of five. A seed repeats the choice of
operations and cuts (not the timing of the machine): crash.py --seed N. Standard library only.

`tests/crash/run --cuts 1000` takes some 20 minutes on two idle cores. A line tells of every cut, and
the last one of all.
"""

import argparse
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from account import Client, Container
from follower import Follower, FollowerThread

DATABASE = "crash"
CONTAINERS = {"one": 400, "five": 30_000}
WRITERS = 8
ITEMS_PER_WRITER = 40
COUNTER = {"id": "counter", "pk": "counter", "u": "counter", "n": 0}
GONE = (OSError, http.client.HTTPException)


class Server:
    def __init__(self, binary, data, log):
        self.binary, self.data, self.log = binary, data, log
        self.process, self.port = None, None

    def start(self):
        command = [self.binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", self.data]
        # The writers write as fast as they can.
        command += ["--throughput", "off", "--log-format", "json", "--log-level", "warn"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the server ended with {self.process.wait()} before it was ready")
        self.port = int(json.loads(line)["endpoint"].rstrip("/").rsplit(":", 1)[1])

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=30)
        self.process.stdout.close()
        assert status == 0, f"the server ended with {status} on SIGTERM"


class Item:
    """What we know of one item: the state acknowledged last, and the one in flight, if any."""

    def __init__(self, container, pk, name):
        self.container, self.pk, self.name = container, pk, name
        self.known = None  # absent
        self.in_flight = []
        self.past = None  # a unique value that it had once, or almost had

    def body(self, n):
        return {
            "id": self.name, "pk": self.pk, "u": self.unique(n), "n": n, "text": "x" * (n % 700),
        }

    def unique(self, n):
        return f"{self.name}-{n}"


class Writer(threading.Thread):
    """Writes to its own items until the server is gone."""

    def __init__(self, port, items, tally, rng):
        super().__init__()
        self.port, self.items, self.tally, self.rng = port, items, tally, rng
        self.count, self.surprise = 0, None

    def run(self):
        client = Client(self.port)
        try:
            while self.surprise is None:
                self.step(client)
        except GONE:
            pass
        finally:
            client.close()

    def step(self, client):
        if self.rng.random() < 0.1:
            return self.increment(client)
        item = self.rng.choice(self.items)
        container = Container(client, DATABASE, item.container)
        n = self.rng.randrange(1, 1 << 40)
        if item.known is None:
            write = container.create if self.rng.random() < 0.7 else container.upsert
            return self.write(item, item.body(n), lambda: write(item.body(n)), 201)
        choice = self.rng.random()
        if choice < 0.25:
            return self.write(item, None, lambda: container.delete(item.pk, item.name), 204)
        if choice < 0.5:
            return self.patch(container, item, n)
        write = container.replace if choice < 0.75 else container.upsert
        return self.write(item, item.body(n), lambda: write(item.body(n)), 200)

    def patch(self, container, item, n):
        changed = dict(item.known, n=n, u=item.unique(n))
        operations = [
            {"op": "set", "path": "/n", "value": n},
            {"op": "set", "path": "/u", "value": item.unique(n)},
        ]
        self.write(item, changed, lambda: container.patch(item.pk, item.name, operations), 200)

    def write(self, item, outcome, send, expected):
        item.in_flight = [outcome]
        answer = send()
        item.in_flight = []
        if answer.status == expected:
            item.past = item.known["u"] if item.known else item.past
            item.known = outcome
            self.count += 1
        else:
            self.surprise = f"{item.name}: {answer.status} for {expected}: {answer.body}"

    def increment(self, client):
        container = Container(client, DATABASE, self.rng.choice(list(CONTAINERS)))
        name = container.link.rsplit("/", 1)[1]
        with self.tally["lock"]:
            self.tally[name]["sent"] += 1
        operation = {"op": "incr", "path": "/n", "value": 1}
        answer = container.patch(COUNTER["pk"], COUNTER["id"], [operation])
        # Writers race for this one: a refusal to retry for ever (449) is an answer too.
        if answer.status == 200:
            with self.tally["lock"]:
                self.tally[name]["acknowledged"] += 1
        elif answer.status == 449:
            with self.tally["lock"]:
                self.tally[name]["sent"] -= 1
        else:
            self.surprise = f"counter: {answer.status}: {answer.body}"


class Mover(threading.Thread):
    """Splits and merges partitions until the server is gone."""

    PARTITIONS_MAX = 7

    def __init__(self, port, rng):
        super().__init__()
        self.port, self.rng = port, rng
        self.count, self.surprise = 0, None

    def run(self):
        client = Client(self.port)
        try:
            while self.surprise is None:
                self.step(client, self.rng.choice(list(CONTAINERS)))
                time.sleep(self.rng.uniform(0.0, 0.05))
        except GONE:
            pass
        finally:
            client.close()

    def step(self, client, container):
        listed = client.admin("GET", DATABASE, container, "?top=0")
        if listed.status != 200:
            self.surprise = f"partitions: {listed.status}: {listed.body}"
            return
        ids = [partition["id"] for partition in listed.body["partitions"]]
        at = self.rng.randrange(len(ids))
        if len(ids) >= self.PARTITIONS_MAX:
            at = min(at, len(ids) - 2)
            begun = client.admin("POST", DATABASE, container, "/merge", {"ids": ids[at:at + 2]})
        else:
            mode = {"mode": self.rng.choice(["storage", "midpoint"])}
            begun = client.admin("POST", DATABASE, container, f"/{ids[at]}/split", mode)
        # What is moving already, gone meanwhile, needed or indivisible is refused.
        if begun.status in (200, 201, 202):
            self.count += 1
        elif begun.status not in (400, 404, 409):
            self.surprise = f"a move: {begun.status}: {begun.body}"


def strip(body):
    return {name: value for name, value in body.items() if not name.startswith("_")}


def verify(port, items, tally, followers):
    """Compares everything with what was acknowledged; settles what was in flight."""
    client = Client(port)
    for name in CONTAINERS:
        container = Container(client, DATABASE, name)
        found = {item["id"]: strip(item) for item in container.list()}
        for follower in (follower for follower in followers if follower.container == name):
            follower.restart()
            follower.finish(client, found.values())
        counted = found.pop(COUNTER["id"])["n"]
        sent, acknowledged = tally[name]["sent"], tally[name]["acknowledged"]
        assert acknowledged <= counted <= sent, f"{name}: {acknowledged} ≤ {counted} ≤ {sent}"
        tally[name]["sent"] = tally[name]["acknowledged"] = counted
        for item in (item for item in items if item.container == name):
            settle(container, item, found.pop(item.name, None))
        assert not found, f"{name}: items nobody wrote, or back from the dead: {sorted(found)}"
    client.close()


def settle(container, item, listed):
    answer = container.read(item.pk, item.name)
    read = strip(answer.body) if answer.status == 200 else None
    assert answer.status in (200, 404), f"{item.name}: {answer.status} {answer.body}"
    assert read == listed, f"{item.name}: read {read} but listed {listed}"
    possible = [item.known, *item.in_flight]
    assert read in possible, f"{item.name}: found {read}, acknowledged {item.known}, " \
        f"in flight {item.in_flight}"
    item.past = next((body["u"] for body in possible if body and body != read), item.past)
    item.known, item.in_flight = read, []


def verify_unique_index(port, items, rng, sample):
    """An index entry for every item, and none without one, as far as a user can tell."""
    client = Client(port)
    for item in rng.sample(items, min(sample, len(items))):
        container = Container(client, DATABASE, item.container)
        probe = {"id": "probe", "pk": item.pk, "u": item.past}
        if item.known is not None:
            answer = container.create(dict(probe, u=item.known["u"]))
            assert answer.status == 409, f"{item.name}: its value is not taken: {answer.status}"
        if item.past is not None:
            answer = container.create(probe)
            assert answer.status == 201, f"{item.name}: a free value is taken: {answer.body}"
            assert container.delete(item.pk, "probe").status == 204
    client.close()


def make_containers(port):
    client = Client(port)
    assert client.create_database(DATABASE).status == 201
    for name, throughput in CONTAINERS.items():
        answer = client.create_container(DATABASE, name, throughput, "/u")
        assert answer.status == 201, answer.body
        assert Container(client, DATABASE, name).create(COUNTER).status == 201
    client.close()


def make_items(rng):
    names = list(CONTAINERS)
    items = []
    for writer in range(WRITERS):
        for number in range(ITEMS_PER_WRITER):
            pk = f"key-{rng.randrange(30)}"
            items.append(Item(names[number % len(names)], pk, f"w{writer}-{number}"))
    return items


def run(server, cuts, rng):
    server.start()
    make_containers(server.port)
    items = make_items(rng)
    tally = {name: {"sent": 0, "acknowledged": 0} for name in CONTAINERS}
    tally["lock"] = threading.Lock()
    followers = [
        Follower(DATABASE, name, random.Random(rng.random()), whole)
        for name in CONTAINERS
        for whole in (False, True)
    ]
    totals = Totals(cuts)
    for _ in range(cuts):
        own = [items[w * ITEMS_PER_WRITER:(w + 1) * ITEMS_PER_WRITER] for w in range(WRITERS)]
        writers = [
            Writer(server.port, mine, tally, random.Random(rng.random())) for mine in own
        ]
        mover = Mover(server.port, random.Random(rng.random()))
        readers = [FollowerThread(server.port, follower, GONE) for follower in followers]
        threads = [*writers, mover, *readers]
        for thread in threads:
            thread.start()
        time.sleep(rng.uniform(0.02, 0.6))
        server.kill()
        for thread in threads:
            thread.join()
            assert thread.surprise is None, thread.surprise
        begun = time.monotonic()
        server.start()
        ready = time.monotonic() - begun
        verify(server.port, items, tally, followers)
        verify_unique_index(server.port, items, rng, 20)
        totals.count(sum(writer.count for writer in writers), mover.count, ready)
    totals.told = sum(follower.count for follower in followers)
    assert all(follower.count for follower in followers), "a reader of the change feed saw nothing"
    verify_unique_index(server.port, items, rng, len(items))
    assert totals.moves > 0, "no partition was ever split"
    server.stop()
    return totals


class Totals:
    """What all cuts together did, told as it goes."""

    def __init__(self, cuts):
        self.cuts, self.cut = cuts, 0
        self.written = self.moves = self.told = 0
        self.slowest = 0.0
        self.begun = time.monotonic()

    def count(self, written, moves, ready):
        self.cut += 1
        self.written += written
        self.moves += moves
        self.slowest = max(self.slowest, ready)
        minutes = (time.monotonic() - self.begun) / 60
        left = minutes / self.cut * (self.cuts - self.cut)
        print(f"cut {self.cut} of {self.cuts}: {self.written} acknowledged writes and {self.moves} "
              f"moves so far, none lost, ready after {ready * 1000:.0f} ms, {minutes:.1f} minutes, "
              f"about {left:.1f} to go", flush=True)

    def summary(self, seed):
        minutes = (time.monotonic() - self.begun) / 60
        return (f"crash: {self.cut} cuts, {self.written} acknowledged writes, 0 lost; "
                f"{self.moves} splits and merges begun, {self.told} changes told by the feed, none "
                f"missing and none twice; slowest start {self.slowest * 1000:.0f} ms; "
                f"{minutes:.1f} minutes, seed {seed}")


def check_store(binary, data):
    """The server's own check: no index entry without item, no item without index entry."""
    subprocess.run([binary, "check", "--data-dir", data], check=True)


def at_least_one(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError("at least one")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", type=at_least_one, default=50, help="how often (50)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    binary = os.environ["PARTITA_BINARY"]
    work = tempfile.mkdtemp(prefix="partita-crash-")
    print(f"seed {options.seed}, data in {work}", flush=True)
    with open(os.path.join(work, "server.log"), "w") as log:
        server = Server(binary, os.path.join(work, "data"), log)
        try:
            totals = run(server, options.cuts, random.Random(options.seed))
        except BaseException:
            if server.process is not None and server.process.poll() is None:
                server.kill()
            print(f"Failed. The data and the server's log are kept in {work}", flush=True)
            raise
    check_store(binary, os.path.join(work, "data"))
    shutil.rmtree(work)
    print(totals.summary(options.seed))


if __name__ == "__main__":
    sys.exit(main())
