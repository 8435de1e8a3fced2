"""Runs all checks with one client, then with many at once, each with a sandbox of its own."""

import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from e2b import Sandbox

import checks
from checks import PATIENCE, patient

CROWD = 20


def attempt(check, **named):
    sandbox = patient(
        Sandbox.create(envs={"OF_ALL": "seen"}, metadata={"check": check.__name__}, request_timeout=PATIENCE)
    )
    try:
        check(sandbox, **named)
    finally:
        sandbox.kill()


def one_by_one(only):
    failed = 0
    for check in checks.ALL:
        if only and check.__name__ not in only:
            continue
        began = time.monotonic()
        try:
            attempt(check)
            word = "ok"
        except Exception:
            traceback.print_exc()
            word, failed = "FAILED", failed + 1
        print(f"{word} {check.__name__} {time.monotonic() - began:.2f} s", flush=True)
    return failed


def client(number):
    """All of them in one sandbox; a smaller large file, as all of them lie in memory."""
    sandbox = patient(Sandbox.create(envs={"OF_ALL": "seen"}, timeout=900, request_timeout=PATIENCE))
    try:
        for check in checks.ALL:
            try:
                check(sandbox, **({"many": 1 << 20} if check is checks.files else {}))
            except Exception:
                print(f"FAILED {check.__name__} of client {number}\n{traceback.format_exc()}", flush=True)
                return False
            sandbox.commands.run("rm -rf ~/* /tmp/*")
        return True
    finally:
        sandbox.kill()


def crowd():
    began = time.monotonic()
    with ThreadPoolExecutor(CROWD) as pool:
        good = list(pool.map(client, range(CROWD)))
    print(f"{sum(good)} of {CROWD} clients at once: {time.monotonic() - began:.1f} s", flush=True)
    return good.count(False)


if __name__ == "__main__":
    failed = one_by_one(sys.argv[1:])
    if not sys.argv[1:]:
        failed += crowd()
    checks.leave(1 if failed else 0)
