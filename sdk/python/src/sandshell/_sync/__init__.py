"""The client, synchronous half. All but `_io.py` is written by scripts/generate from `_async`."""
