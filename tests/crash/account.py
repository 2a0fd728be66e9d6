"""The smallest client that can sign requests: enough of the protocol to write, read and list.

One connection per client, no retries: a broken connection is news here, not an inconvenience.
"""

import base64
import email.utils
import hashlib
import hmac
import http.client
import json
import urllib.parse

KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
VERSION = "2020-07-15"


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers = status, headers
        self.body = json.loads(body) if body else None


class Client:
    """Raises OSError or http.client.HTTPException when the server goes away."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def close(self):
        self.connection.close()

    def send(self, method, kind, link, owner, body=None, **headers):
        """Asks, and waits for the answer."""
        self.ask(method, kind, link, owner, body, **headers)
        response = self.connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def ask(self, method, kind, link, owner, body=None, **headers):
        """`link` is the path, `owner` the resource that is signed: the same, or its parent."""
        date = email.utils.formatdate(usegmt=True)
        text = f"{method.lower()}\n{kind}\n{owner}\n{date.lower()}\n\n"
        digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        token = "type=master&ver=1.0&sig=" + base64.b64encode(digest).decode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers |= {
            "authorization": urllib.parse.quote(token, safe=""),
            "x-ms-date": date,
            "x-ms-version": VERSION,
        }
        payload = None if body is None else json.dumps(body).encode()
        if payload is not None:
            headers.setdefault("content-type", "application/json")
        self.connection.request(method, "/" + link, payload, headers)

    def create_database(self, database):
        return self.send("POST", "dbs", "dbs", "", {"id": database})

    def admin(self, method, database, container, what, body=None):
        """A request of the admin API about a container's partitions."""
        link = f"_partita/databases/{database}/containers/{container}/partitions{what}"
        return self.send(method, "_partita", link, link.split("?")[0], body)

    def create_container(self, database, container, throughput, unique_path):
        definition = {
            "id": container,
            "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
            "uniqueKeyPolicy": {"uniqueKeys": [{"paths": [unique_path]}]},
        }
        owner = f"dbs/{database}"
        throughput = {"x-ms-offer-throughput": str(throughput)}
        return self.send("POST", "colls", f"{owner}/colls", owner, definition, **throughput)


class Container:
    """The items of one container, through one client."""

    def __init__(self, client, database, container):
        self.client, self.link = client, f"dbs/{database}/colls/{container}"

    def create(self, item):
        return self._feed(item)

    def upsert(self, item):
        return self._feed(item, **{"x-ms-documentdb-is-upsert": "true"})

    def read(self, key, name):
        return self._item("GET", key, name)

    def replace(self, item):
        return self._item("PUT", item["pk"], item["id"], item)

    def patch(self, key, name, operations):
        return self._item("PATCH", key, name, {"operations": operations})

    def delete(self, key, name):
        return self._item("DELETE", key, name)

    def list(self):
        """Every item of the container, page by page."""
        continuation = None
        while True:
            headers = {"x-ms-max-item-count": "1000"}
            if continuation:
                headers["x-ms-continuation"] = continuation
            answer = self.client.send("GET", "docs", f"{self.link}/docs", self.link, **headers)
            assert answer.status == 200, f"listing answered {answer.status}: {answer.body}"
            yield from answer.body["Documents"]
            continuation = answer.headers.get("x-ms-continuation")
            if not continuation:
                return

    def _feed(self, item, **headers):
        headers["x-ms-documentdb-partitionkey"] = json.dumps([item["pk"]])
        return self.client.send("POST", "docs", f"{self.link}/docs", self.link, item, **headers)

    def _item(self, method, key, name, body=None):
        link = f"{self.link}/docs/{name}"
        headers = {"x-ms-documentdb-partitionkey": json.dumps([key])}
        return self.client.send(method, "docs", link, link, body, **headers)
