"""The client, asynchronous half: the one that is written by hand.

scripts/generate makes `_sync` of it, token by token (no `async` and `await`, names without `Async`),
so that the two cannot differ; `scripts/generate --check` runs with the tests. A core without input and
output below two drivers would have left every public method, with its types and its text, to be
written twice. What is not a matter of names is in `_io.py`, of which each half has its own.
"""
