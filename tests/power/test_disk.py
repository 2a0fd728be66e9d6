"""The model itself: what each mode of disk.py keeps and loses, on small logs."""

import os
import tempfile
import unittest

from disk import Disk, Event

ROOT = "/root"


def opened(handle, path, inode, how=b"c"):
    return Event("O", handle, inode, f"{ROOT}/{path}", how)


def written(handle, offset, data):
    return Event("W", handle, offset, "", data)


def synced(handle, begun):
    return Event("S", handle, begun, "", b"")


def image(log, mode, seed=1):
    disk = Disk(ROOT)
    for event in log:
        disk.apply(event)
    with tempfile.TemporaryDirectory() as target:
        disk.save(target, mode, seed)
        found = {}
        for path, _, files in os.walk(target):
            for name in files:
                whole = os.path.join(path, name)
                with open(whole, "rb") as file:
                    found[os.path.relpath(whole, target)] = file.read()
        return found


class Modes(unittest.TestCase):
    def test_strict_has_a_name_only_when_its_directory_was_synced(self):
        log = [opened(1, "a", 7), written(1, 0, b"data"), synced(1, 2)]
        self.assertEqual(image(log, "strict"), {})
        self.assertEqual(image(log, "prefix"), {"a": b"data"})
        log += [Event("O", 2, 1, ROOT, b"d"), synced(2, 4)]
        self.assertEqual(image(log, "strict"), {"a": b"data"})

    def test_strict_has_no_data_that_were_not_synced(self):
        log = [Event("O", 2, 1, ROOT, b"d"), opened(1, "a", 7), synced(2, 2)]
        log += [written(1, 0, b"old"), synced(1, 4), written(1, 0, b"new")]
        self.assertEqual(image(log, "strict"), {"a": b"old"})
        self.assertEqual(image(log, "metadata"), {"a": b"old"})

    def test_a_sync_covers_what_was_there_when_it_began(self):
        log = [opened(1, "a", 7), written(1, 0, b"one"), written(1, 3, b"two"), synced(1, 2)]
        self.assertEqual(image(log, "metadata"), {"a": b"one\0\0\0"})

    def test_a_renaming_that_is_not_synced_leaves_the_old_name(self):
        log = [Event("O", 2, 1, ROOT, b"d"), opened(1, "a", 7), synced(2, 2)]
        log += [Event("R", 0, 0, f"{ROOT}/a", f"{ROOT}/b".encode())]
        self.assertEqual(list(image(log, "strict")), ["a"])
        self.assertEqual(list(image(log, "prefix")), ["b"])

    def test_a_renaming_past_the_recorder_is_known_by_the_inode(self):
        log = [opened(1, ".tmp", 7), written(1, 0, b"x"), opened(2, "current", 7, b"")]
        self.assertEqual(image(log, "prefix"), {"current": b"x"})

    def test_metadata_has_lengths_without_data(self):
        log = [opened(1, "a", 7), written(1, 0, b"data")]
        self.assertEqual(image(log, "metadata"), {"a": b"\0\0\0\0"})

    def test_torn_has_some_sectors_of_the_last_write(self):
        data = b"".join(bytes([65 + i]) * 512 for i in range(8))
        log = [opened(1, "a", 7), written(1, 0, b"." * 100), written(1, 100, data)]
        images = {image(log, "torn", seed)["a"] for seed in range(20)}
        self.assertGreater(len(images), 10)
        for torn in images:
            self.assertEqual(torn[:100], b"." * 100)
            self.assertNotEqual(torn, b"." * 100 + data)


if __name__ == "__main__":
    unittest.main()
