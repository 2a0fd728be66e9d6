"""A reader of the change feed that is interrupted at random.

One reads as SDKs do: it keeps a place (an ETag) for each part of the container's hash range. When a
partition is gone, it asks which ones there are and goes on in these, with the places that it has:
parts are divided, and never joined. Another one asks for the whole container at once, and keeps the
one ETag that it gets. Now and then both write down where they are. After a cut they go on from there,
so they see some changes again.

They check that changes of one partition key come in the order of their LSNs, that no change comes
twice but after a cut, whatever was split and merged meanwhile, and know the last version of each item
that they were told.
"""

import copy
import threading

from account import Client, Container

GONE = 410
NOT_MODIFIED = 304


class Follower:
    """What a reader of one container knows. Lives longer than any server."""

    def __init__(self, database, container, rng, whole=False):
        self.database, self.container, self.rng = database, container, rng
        self.whole = whole
        self.parts = [{"min": "", "max": "FF", "etag": None}]
        # The last LSN that was told of each partition key and of each item.
        self.lsns = {}
        self.seen = {}
        self.count = 0
        self.written_down = (copy.deepcopy(self.parts), {})

    def restart(self):
        """Forgets what was not written down; of the items it knows what it was told."""
        parts, lsns = self.written_down
        self.parts, self.lsns = copy.deepcopy(parts), dict(lsns)

    def round(self, client):
        """Reads a page of every part; whether there was anything."""
        if not self.whole:
            ranges = self.ranges(client)
            self.parts = [piece for part in self.parts for piece in pieces(part, ranges)]
        anything = False
        for part in self.parts:
            anything |= self.page(client, part)
        if self.rng.random() < 0.2:
            self.written_down = (copy.deepcopy(self.parts), dict(self.lsns))
        return anything

    def ranges(self, client):
        link = Container(client, self.database, self.container).link
        answer = client.send("GET", "pkranges", f"{link}/pkranges", link)
        assert answer.status == 200, f"pkranges: {answer.status}: {answer.body}"
        return answer.body["PartitionKeyRanges"]

    def page(self, client, part):
        link = Container(client, self.database, self.container).link
        headers = {
            "A-IM": "Incremental Feed",
            "x-ms-max-item-count": str(self.rng.randrange(1, 40)),
        }
        if not self.whole:
            headers |= {
                "x-ms-documentdb-partitionkeyrangeid": part["id"],
                "x-ms-read-key-type": "EffectivePartitionKeyRange",
                "x-ms-start-epk": part["min"],
                "x-ms-end-epk": part["max"],
            }
        if part["etag"]:
            headers["If-None-Match"] = part["etag"]
        answer = client.send("GET", "docs", f"{link}/docs", link, **headers)
        if answer.status == GONE:
            # It was split or merged, or is about to be: the next round knows more.
            return True
        assert answer.status in (200, NOT_MODIFIED), f"changes: {answer.status}: {answer.body}"
        for item in answer.body["Documents"] if answer.status == 200 else []:
            self.take(item)
        part["etag"] = answer.headers["etag"]
        return answer.status == 200

    def take(self, item):
        key, lsn = ("key", item["pk"]), item["_lsn"]
        before = self.lsns.get(key, 0)
        assert before <= lsn, f"{self.container}: {item['id']} at {lsn} came after {before}"
        name = ("item", item["pk"], item["id"])
        told = self.lsns.get(name, 0)
        assert told < lsn, f"{self.container}: {item['id']} at {lsn} came again after {told}"
        self.lsns[key] = self.lsns[name] = lsn
        self.seen[item["id"]] = {k: v for k, v in item.items() if not k.startswith("_")}
        self.count += 1

    def finish(self, client, items):
        """Nobody writes any longer: every item must have come as it is."""
        while self.round(client):
            pass
        for item in items:
            told = self.seen.get(item["id"])
            assert told == item, f"{self.container}: the feed told {told}, there is {item}"


def pieces(part, ranges):
    """The part, as the partitions divide it."""
    for partition in ranges:
        low = max(part["min"], partition["minInclusive"])
        high = min(part["max"], partition["maxExclusive"])
        if low < high:
            yield {"min": low, "max": high, "etag": part["etag"], "id": partition["id"]}


class FollowerThread(threading.Thread):
    """Follows until the server is gone."""

    def __init__(self, port, follower, gone):
        super().__init__()
        self.port, self.follower, self.gone = port, follower, gone
        self.surprise = None

    def run(self):
        client = Client(self.port)
        try:
            while True:
                self.follower.round(client)
        except self.gone:
            pass
        except AssertionError as error:
            self.surprise = str(error)
        finally:
            client.close()
