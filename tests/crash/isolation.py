#!/usr/bin/env python3
"""Moves amounts between items with stored procedures, from many clients; checks what isolation promises.

Every logical partition has accounts whose sum never changes, a journal that every transfer writes, a
counter, and two people of whom one must always be on duty. Clients run procedures on them as fast as
they can; partitions are split and merged meanwhile, and the server is killed with SIGKILL again and
again. Checked all the time, from inside procedures and from outside:

- nobody sees half a transfer: the sum is what it was, by reads, by a query and by another client's query;
- reads repeat: a procedure that reads twice sees the same, whatever others commit meanwhile;
- no write skew: two who may leave their duty only if the other stays never both leave;
- no lost update: the counter is what procedures and patches have added to it;
- after each cut, what was acknowledged is there and what was cut off is there wholly or not at all.

Standard library only. The machinery of processes and moves is that of crash.py.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time

from account import Client, Container
from crash import CONTAINERS, DATABASE, GONE, Mover, Server, check_store

KEYS = [f"key-{number}" for number in range(12)]
ACCOUNTS = [f"account-{number}" for number in range(6)]
AMOUNT = 1_000
TOTAL = AMOUNT * len(ACCOUNTS)

PRELUDE = """
    var docs = __.getAltLink() + '/docs/';
    function must(accepted) { if (!accepted) throw new Error('no time left'); }
    function read(id, then) {
        must(__.readDocument(docs + id, {}, function (error, found) {
            if (error) throw error;
            then(found);
        }));
    }
    function write(document, then) {
        must(__.replaceDocument(document._self, document, function (error) {
            if (error) throw error;
            if (then) then();
        }));
    }
    function sum(then) {
        must(__.queryDocuments(__.getSelfLink(),
            "SELECT VALUE SUM(c.n) FROM c WHERE c.kind = 'account'", function (error, found) {
                if (error) throw error;
                then(found[0]);
            }));
    }
"""

PROCEDURES = {
    "transfer": """function (from, to, amount, client, number) {""" + PRELUDE + """
        read(from, function (a) { read(to, function (b) { read('journal', function (journal) {
            a.n -= amount;
            b.n += amount;
            journal.count += 1;
            journal.seen[client] = number;
            write(a, function () { write(b, function () { write(journal, function () {
                sum(function (total) { __.response.setBody(total); });
            }); }); });
        }); }); });
    }""",
    "audit": """function (accounts) {""" + PRELUDE + """
        var byReads = 0;
        sum(function (first) {
            accounts.forEach(function (id) { read(id, function (found) { byReads += found.n; }); });
            read('x', function (x) { read('y', function (y) { sum(function (second) {
                __.response.setBody(
                    { first: first, byReads: byReads, second: second, duty: x.on || y.on });
            }); }); });
        });
    }""",
    "leave": """function (who, other) {""" + PRELUDE + """
        read(other, function (stays) { read(who, function (goes) {
            __.response.setBody(stays.on && goes.on);
            if (!stays.on || !goes.on) return;
            goes.on = false;
            write(goes);
        }); });
    }""",
    "enter": """function (who) {""" + PRELUDE + """
        read(who, function (comes) { comes.on = true; write(comes); });
    }""",
    "increment": """function () {""" + PRELUDE + """
        read('counter', function (counter) { counter.n += 1; write(counter); });
    }""",
}


class Worker(threading.Thread):
    """One client. Knows what it did, and what was cut off."""

    def __init__(self, name, rng):
        super().__init__()
        self.name, self.rng, self.port = name, rng, None
        self.acknowledged = {}  # the last transfer on each logical partition
        self.added = {}  # increments of each counter
        self.in_flight = None
        self.tally = {"transfers": 0, "audits": 0, "duties": 0, "increments": 0, "retries": 0}
        self.surprise = None

    def again(self, port):
        """Threads begin once: the same client on a new server."""
        worker = Worker(self.name, self.rng)
        worker.port = port
        worker.acknowledged, worker.added, worker.tally = self.acknowledged, self.added, self.tally
        return worker

    def run(self):
        client = Client(self.port)
        try:
            while self.surprise is None:
                self.step(client, (self.rng.choice(list(CONTAINERS)), self.rng.choice(KEYS)))
        except GONE:
            pass
        except Exception as error:
            self.surprise = repr(error)
        finally:
            client.close()

    def step(self, client, home):
        choice = self.rng.random()
        if choice < 0.7:
            return self.transfer(client, home)
        if choice < 0.8:
            return self.audit(client, home)
        if choice < 0.9:
            return self.duty(client, home)
        return self.increment(client, home)

    def execute(self, client, home, procedure, *arguments):
        answer = execute(client, home, procedure, *arguments)
        if answer.status == 449:
            self.tally["retries"] += 1
            return None
        if answer.status != 200:
            self.surprise = f"{procedure} on {home}: {answer.status}: {answer.body}"
            return None
        return answer

    def transfer(self, client, home):
        number = self.acknowledged.get(home, 0) + 1
        source, target = self.rng.sample(ACCOUNTS, 2)
        amount = self.rng.randrange(1, 50)
        self.in_flight = (home, number)
        done = self.execute(client, home, "transfer", source, target, amount, self.name, number)
        self.in_flight = None
        if done is None:
            return
        self.expect(done.body == TOTAL, f"a transfer on {home} saw the sum {done.body}")
        self.acknowledged[home] = number
        self.tally["transfers"] += 1

    def audit(self, client, home):
        if self.rng.random() < 0.5:
            found = query_sum(client, home)
            self.expect(found == TOTAL, f"a query of {home} saw the sum {found}")
        else:
            done = self.execute(client, home, "audit", ACCOUNTS)
            if done is None:
                return
            right = {"first": TOTAL, "byReads": TOTAL, "second": TOTAL, "duty": True}
            self.expect(done.body == right, f"an audit of {home} saw {done.body}")
        self.tally["audits"] += 1

    def duty(self, client, home):
        who, other = self.rng.sample(["x", "y"], 2)
        if self.rng.random() < 0.5:
            self.execute(client, home, "leave", who, other)
        else:
            self.execute(client, home, "enter", who)
        self.tally["duties"] += 1

    def increment(self, client, home):
        sent, done = self.added.setdefault(home, [0, 0])
        self.added[home][0] = sent + 1
        if self.rng.random() < 0.5:
            answer = self.execute(client, home, "increment")
            refused = answer is None
        else:
            operation = {"op": "incr", "path": "/n", "value": 1}
            container = Container(client, DATABASE, home[0])
            answer = container.patch(home[1], "counter", [operation])
            refused = answer.status == 449
            self.expect(answer.status in (200, 449), f"a patch on {home}: {answer.status}")
        if refused:
            self.added[home][0] = sent
        else:
            self.added[home][1] = done + 1
            self.tally["increments"] += 1

    def expect(self, right, text):
        if not right:
            self.surprise = text


def execute(client, home, procedure, *arguments):
    container, key = home
    link = f"dbs/{DATABASE}/colls/{container}/sprocs/{procedure}"
    headers = {"x-ms-documentdb-partitionkey": json.dumps([key])}
    return client.send("POST", "sprocs", link, link, list(arguments), **headers)


def query_sum(client, home):
    container, key = home
    link = f"dbs/{DATABASE}/colls/{container}"
    headers = {
        "x-ms-documentdb-partitionkey": json.dumps([key]),
        "content-type": "application/query+json",
    }
    query = {"query": "SELECT VALUE SUM(c.n) FROM c WHERE c.kind = 'account'"}
    answer = client.send("POST", "docs", f"{link}/docs", link, query, **headers)
    return answer.body["Documents"][0] if answer.status == 200 else answer.body


def make(port):
    client = Client(port)
    assert client.create_database(DATABASE).status == 201
    for name, throughput in CONTAINERS.items():
        assert client.create_container(DATABASE, name, throughput, "/u").status == 201
        container = Container(client, DATABASE, name)
        for procedure, source in PROCEDURES.items():
            body = {"id": procedure, "body": source}
            owner = container.link
            made = client.send("POST", "sprocs", f"{owner}/sprocs", owner, body)
            assert made.status == 201, made.body
        for key in KEYS:
            items = [{"id": id, "kind": "account", "n": AMOUNT} for id in ACCOUNTS]
            items += [{"id": id, "kind": "duty", "on": True} for id in ("x", "y")]
            items += [{"id": "journal", "count": 0, "seen": {}}, {"id": "counter", "n": 0}]
            for item in items:
                made = container.create(dict(item, pk=key, u=item["id"]))
                assert made.status == 201, made.body
    client.close()


def verify(port, workers):
    """Compares every logical partition with what was acknowledged; settles what was cut off."""
    client = Client(port)
    for home in [(container, key) for container in CONTAINERS for key in KEYS]:
        found = execute(client, home, "audit", ACCOUNTS).body
        right = {"first": TOTAL, "byReads": TOTAL, "second": TOTAL, "duty": True}
        assert found == right, f"{home}: {found}"
        container = Container(client, DATABASE, home[0])
        journal = container.read(home[1], "journal").body
        for worker in workers:
            known, seen = worker.acknowledged.get(home, 0), journal["seen"].get(worker.name, 0)
            cut_off = worker.in_flight[1] if worker.in_flight and worker.in_flight[0] == home else None
            assert seen in (known, cut_off), f"{home}: {worker.name} did {known}, found {seen}"
            worker.acknowledged[home] = seen
        assert journal["count"] == sum(journal["seen"].values()), f"{home}: {journal}"
        counted = container.read(home[1], "counter").body["n"]
        sent = sum(worker.added.get(home, [0, 0])[0] for worker in workers)
        done = sum(worker.added.get(home, [0, 0])[1] for worker in workers)
        assert done <= counted <= sent, f"{home}: the counter: {done} ≤ {counted} ≤ {sent}"
        for worker in workers:
            worker.added[home] = [0, 0]
        workers[0].added[home] = [counted, counted]
    client.close()


def run(server, options, rng):
    server.start()
    make(server.port)
    workers = [Worker(f"c{n}", random.Random(rng.random())) for n in range(options.clients)]
    moves, cuts, begun = 0, 0, time.monotonic()
    transfers = lambda: sum(worker.tally["transfers"] for worker in workers)
    while transfers() < options.transfers:
        workers = [worker.again(server.port) for worker in workers]
        mover = Mover(server.port, random.Random(rng.random()))
        for thread in [*workers, mover]:
            thread.start()
        goal = min(transfers() + options.transfers // (options.cuts + 1) + 1, options.transfers)
        while transfers() < goal and not any(worker.surprise for worker in workers):
            time.sleep(rng.uniform(0.01, 0.2))
        server.kill()
        cuts += 1
        for thread in [*workers, mover]:
            thread.join()
            assert thread.surprise is None, thread.surprise
        moves += mover.count
        server.start()
        verify(server.port, workers)
        print(f"cut {cuts}: {transfers()} transfers, {moves} moves so far", flush=True)
    seconds = time.monotonic() - begun
    server.stop()
    total = {name: sum(worker.tally[name] for worker in workers) for name in workers[0].tally}
    return total | {"cuts": cuts, "moves": moves, "seconds": round(seconds)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transfers", type=int, default=5_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--cuts", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    binary = os.environ["PARTITA_BINARY"]
    work = tempfile.mkdtemp(prefix="partita-isolation-")
    print(f"seed {options.seed}, data in {work}", flush=True)
    with open(os.path.join(work, "server.log"), "w") as log:
        server = Server(binary, os.path.join(work, "data"), log)
        try:
            told = run(server, options, random.Random(options.seed))
        except BaseException:
            if server.process is not None and server.process.poll() is None:
                server.kill()
            print(f"Failed. The data and the server's log are kept in {work}", flush=True)
            raise
    check_store(binary, os.path.join(work, "data"))
    shutil.rmtree(work)
    print("isolation: " + ", ".join(f"{count} {name}" for name, count in told.items()))


if __name__ == "__main__":
    sys.exit(main())
