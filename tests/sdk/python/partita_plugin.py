"""Runs the SDK's own suite as it is: what cannot pass yet is listed, never edited out.

- Tests that only carry markers of live accounts (several regions, AAD, circuit breakers …) are left
  out: they need what a single local server is not.
- Tests listed in expected_failures.txt must fail. One that passes fails the run until its line is
  removed, so the list only ever shrinks. A line that names no test is an error too.
- Tests listed there with the reason "timing" are skipped: they pass on a server that is slow enough,
  so neither outcome says anything.
- A test that other tests of its file disturb runs before them.
- A test that races its own client's work in the background waits for that, if it is named here.
"""

import asyncio
import os
import pathlib

import pytest
from azure.cosmos._global_endpoint_manager import _GlobalEndpointManager as Threads
from azure.cosmos.aio._global_endpoint_manager_async import (
    _GlobalEndpointManager as Tasks,
)

LIST = pathlib.Path(__file__).with_name("expected_failures.txt")

# A test with one of these is meant to run on a local server, whatever else it carries.
LOCAL = {"cosmosEmulator", "cosmosLong", "cosmosQuery", "cosmosSplit", "cosmosSearchQuery"}
LIVE_PREFIXES = (
    "cosmosAAD",
    "cosmosCircuitBreaker",
    "cosmosGSI",
    "cosmosMultiRegion",
    "cosmosPerPartitionAutomaticFailover",
    "semanticReranker",
)

# An earlier test deletes a container that this one makes again under the same name, and their client
# goes on with the session of the old one.
FIRST = {
    "test_crud_response_payload_on_write_disabled.py::"
    "TestCRUDOperationsResponsePayloadOnWriteDisabled::"
    "test_partitioned_collection_document_crud_and_query",
}

# They give a client regions that are not there. The client's own first look at the account, in the
# background, would take them away if it came later, so clients of these tests wait for it.
WAITING = (
    "test_service_retry_policies.py::",
    "test_service_retry_policies_async.py::",
    "test_timeout_and_failover_retry_policy.py::",
    "test_timeout_and_failover_retry_policy_async.py::",
)
WAIT_SECONDS = 30


def pytest_configure(config):
    for marker in sorted(LOCAL) + list(LIVE_PREFIXES) + ["unittest"]:
        config.addinivalue_line("markers", f"{marker}: a marker of the SDK's suite")


def pytest_collection_modifyitems(config, items):
    live = [item for item in items if is_live_only(item)]
    if live:
        config.hook.pytest_deselected(items=live)
        items[:] = [item for item in items if item not in set(live)]

    items.sort(key=lambda item: item.nodeid not in FIRST)
    reasons = expected_failures()
    for item in items:
        reason = reasons.pop(item.nodeid, None)
        if reason is not None and reason.startswith("timing"):
            item.add_marker(pytest.mark.skip(reason=reason))
        elif reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    # Several processes run the suite, and one may be asked for a part of it: lines of other files
    # are theirs, if somebody's.
    here = {item.nodeid.partition("::")[0] for item in items}
    suite = os.environ.get("PARTITA_SUITE_FILES", "").split()
    unknown = [test for test in reasons if suite and is_nobodys(test, here, suite)]
    if unknown:
        names = "\n  ".join(unknown)
        raise pytest.UsageError(f"{LIST.name} names tests that do not exist:\n  {names}")


@pytest.fixture(autouse=True)
def first_look_is_over(request, monkeypatch):
    if not request.node.nodeid.startswith(WAITING):
        return
    start, refresh = Threads._start_background_refresh, Tasks._refresh_endpoint_list_private

    def start_and_wait(manager, target, kwargs):
        start(manager, target, kwargs)
        if manager.startup:
            manager._refresh_thread.join(WAIT_SECONDS)

    async def refresh_and_wait(manager, *args, **kwargs):
        first = manager.startup
        await refresh(manager, *args, **kwargs)
        if first:
            await asyncio.wait({manager.refresh_task}, timeout=WAIT_SECONDS)

    monkeypatch.setattr(Threads, "_start_background_refresh", start_and_wait)
    monkeypatch.setattr(Tasks, "_refresh_endpoint_list_private", refresh_and_wait)


def is_nobodys(test, here, suite):
    file = test.partition("::")[0]
    return file in here or file not in suite


def is_live_only(item):
    names = {mark.name for mark in item.iter_markers()}
    return not names & LOCAL and any(name.startswith(LIVE_PREFIXES) for name in names)


def expected_failures():
    """Lines `test id  # reason`; a reason is required."""
    reasons = {}
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        test, _, reason = line.partition("  # ")
        if not reason.strip() or test in reasons:
            raise pytest.UsageError(f"{LIST.name}:{number}: one line `test id  # reason` per test")
        reasons[test.strip()] = reason.strip()
    return reasons
