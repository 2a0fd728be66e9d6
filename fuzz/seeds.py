"""Inputs that a fuzz target begins with: seeds.py TARGET DIRECTORY

Taken from the tests where these have them, so that they stay what the code reads.
"""

import json
import pathlib
import re
import sys

CRATES = pathlib.Path("crates")
PATCHES = [
    '[{"op":"add","path":"/a","value":1}]',
    '{"condition":"from c where c.n > 1","operations":[{"op":"incr","path":"/n","value":0.5}]}',
    '[{"op":"set","path":"/o/b~1c~0","value":{}},{"op":"replace","path":"/t/1","value":"x"}]',
    '[{"op":"remove","path":"/o/a"},{"op":"move","from":"/t/3","path":"/o/x"}]',
    '[{"op":"add","path":"/t/-","value":[]},{"op":"add","path":"/t/0","value":null}]',
]
ITEM = '{"id":"1","n":1.50,"t":[1,"y",null,{"a":2.5e3}],"o":{"a":true,"b/c~":[]}}'
PATHS = [
    "dbs/d/colls/c/docs/i", "dbs/%C3%A9/colls/c%2Fd", "/dbs/d/colls/c/docs/",
    "dbs/d/colls/c/sprocs/s", "dbs/d/colls/c/triggers", "dbs/d/colls/c/udfs/u",
    "dbs/d/colls/c/pkranges", "dbs/d/colls/c/operations/partitionkeydelete",
    "dbs/d/colls/c/conflicts/x", "dbs/AAAAAQ==/colls/AAAAAQAAAAA=", "dbs/d/users/u/permissions/p",
    "dbs/d/clientencryptionkeys/k", "offers/abcd", "dbs/d/colls/c/docs/i/attachments/a",
    "_partita/databases/d/containers/c/partitions/1/split", "addresses", "operations/dtc",
]
GRANTS = [
    {"p": "AAAAAQ==", "m": "read", "c": "AAAAAQAAAAA="},
    {"p": "AAAAAQ==", "m": "all", "d": "AAAAAQ==", "n": "name", "i": "item", "k": '["a",1,null]'},
]
JSONS = [
    ITEM, '[1,-2,300,70000,5000000000,1.5,1e300,-0.0,true,false,null,""]',
    '{"id":"00000000-0000-0000-0000-000000000000","d":"2020-01-01T00:00:00Z","e":[[],{}]}',
]


def queries():
    for path in (CRATES / "query/tests/data").glob("*.json"):
        root = json.loads(path.read_text())
        for case in root.get("cases", []) if isinstance(root, dict) else []:
            texts = [case.get(name) for name in ("query", "sql")] if isinstance(case, dict) else []
            yield from (text.encode() for text in texts if isinstance(text, str))


def batches():
    tests = (CRATES / "nosql/src/hybrid_row/tests.rs").read_text()
    for digits in re.findall(r'"(81[0-9a-f]{8}[0-9a-f]*)"', re.sub(r"\\\n *", "", tests)):
        body = bytes.fromhex(digits)
        yield from (body, body[23:])


def requests():
    tests = (CRATES / "gateway/src/http1/tests.rs").read_text()
    listed = tests[tests.index("const REQUESTS"):tests.index("fn pipelined")]
    found = [json.loads(f'"{text}"') for text in re.findall(r'^ +"(.*)",$', listed, re.MULTILINE)]
    for number, text in enumerate(found):
        yield bytes([number]) + text.encode()
        yield bytes([number]) + (text + found[0]).encode()


def tokens():
    """Progress as continuations write it: counts, then a cursor of each kind."""
    counts = b"\x05\x00\x10"
    yield b"\x00\x07\x41\x00" + counts + b"\x02\x00\x01\xff"
    yield b"\x00\x07\x41\x00" + counts + b"\x01\x02\x03abc\x02de\x09\x01"
    yield b"\x00\x07\x41\x00" + counts + b"\x00\x00\x01\x01\xff\x01\x07\x00"
    yield b"\x00\x07\x41\x00" + counts + b"\x00\x00\x01\x01\xff\x00\x05\x01key!\x07\x00"


def histories():
    yield b"1:100,2:2000"
    yield bytes([24, 3, 16, 20, 4, 16, 32, 1, 6, 2, 5, 0, 6, 1, 4, 77, 6, 3, 5, 0, 40, 9, 6, 1])


SEEDS = {
    "parse": queries, "evaluate": queries, "hybrid_row": batches, "http1": requests,
    "link": lambda: (path.encode() for path in PATHS),
    "patch": lambda: (f"{patch}\0{ITEM}".encode() for patch in PATCHES),
    "resource_token": lambda: (b"\0\x30A" + json.dumps(grant).encode() for grant in GRANTS),
    "binary_json": lambda: (text.encode() for text in JSONS),
    "continuation": tokens, "feed_position": histories,
}

target, directory = sys.argv[1:]
for number, seed in enumerate(sorted(set(SEEDS[target]()))):
    pathlib.Path(directory, f"seed-{number}").write_bytes(seed)
