# The built-in Python driver. Runs in an interpreter of the sandbox, from a file without a name.
#
# Talks on descriptor 14, a socket: each message is a length (4 bytes, big-endian) and then strings,
# each again a length and its UTF-8 bytes; the first string is the kind.
#
#   in:   init cwd            run code [name set value]...
#   out:  hello version       ready | refused reason
#         data main [mime text]...     dropped main (too large)
#         error name value line...     done status
#
# Descriptor 13 brings a byte for each data or dropped with main 0: it was taken in. Any thread may
# display, so only one at a time sends. What is sent between runs is taken in with the next.
#
# User code can break whatever it can reach. We hold what we need in our own names, with a copy of the
# builtins, and what we ask of its objects may raise anything.
#
# Output is not here: the user's code writes to descriptors 1 and 2 themselves.
# What user code can see of us: a builtin `display`, `matplotlib.pyplot.show`, the type of
# `sys.stdout`, and the standard modules imported here.


def drive():
    import ast
    import builtins
    import io
    import linecache
    import os
    import signal
    import socket
    import sys
    import traceback
    import types
    from os import _exit, chdir, getpid, read
    from threading import RLock, get_ident

    control = 14
    taken = 13
    own = "<driver>"
    largest = 64 << 20
    longest_error = 1 << 20
    pid = getpid()
    main_thread = get_ident()
    name_of = type.__dict__["__name__"].__get__
    os.set_inheritable(control, False)
    os.set_inheritable(taken, False)
    channel = socket.socket(fileno=control)

    # The lock is for threads; `busy` is for what runs in the midst of a send of its own thread, as
    # signal handlers and finalizers do.
    lock = RLock()
    busy = False

    # An interrupt must not cut a message in two: one that comes meanwhile is raised after it.
    running = False
    sending = False
    postponed = False

    def on_interrupt(number, frame):
        nonlocal postponed
        if running and sending:
            postponed = True
        elif running:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)

    def send(*strings, wait=False):
        nonlocal sending, postponed
        message = encode(strings)
        guarded = get_ident() == main_thread and not sending
        sending = sending or guarded
        try:
            send_whole(message, wait)
        finally:
            if guarded:
                sending = False
        if guarded and postponed:
            postponed = False
            if running:
                raise KeyboardInterrupt

    def send_whole(message, wait):
        nonlocal busy
        with lock:
            if busy:
                raise RuntimeError("a value cannot be displayed while another one is sent")
            busy = True
            try:
                channel.sendall(message)
                if wait and not read(taken, 1):
                    _exit(0)
            finally:
                busy = False

    def encode(strings):
        parts = []
        for text in strings:
            # A subclass may have an encode of its own.
            data = str.encode(text, "utf-8", "backslashreplace")
            parts += (len(data).to_bytes(4, "big"), data)
        size = sum(map(len, parts))
        if size > largest:
            return encode(("dropped", strings[1]))
        return b"".join([size.to_bytes(4, "big"), *parts])

    def take(count):
        parts = []
        while count:
            part = channel.recv(min(count, 1 << 20))
            if not part:
                # The agent is gone, or done with us.
                _exit(0)
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def receive():
        body = take(int.from_bytes(take(4), "big"))
        strings, at = [], 0
        while at < len(body):
            size = int.from_bytes(body[at : at + 4], "big")
            strings.append(body[at + 4 : at + 4 + size].decode("utf-8", "surrogateescape"))
            at += 4 + size
        return strings

    class LiveText(io.TextIOWrapper):
        """Standard output that is never kept back, so that it arrives while the code runs."""

        def write(self, text):
            count = super().write(text)
            self.flush()
            return count

    def live(number, errors):
        raw = io.FileIO(number, "wb", closefd=False)
        name = "<stdout>" if number == 1 else "<stderr>"
        raw.name = name
        stream = LiveText(io.BufferedWriter(raw), encoding="utf-8", errors=errors, newline="\n")
        stream.mode = "w"
        return stream

    sys.stdout = sys.__stdout__ = live(1, "surrogateescape")
    sys.stderr = sys.__stderr__ = live(2, "backslashreplace")

    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    main.__annotations__ = {}
    sys.modules["__main__"] = main
    sys.argv = [""]
    if sys.path and sys.path[0] != "":
        sys.path.insert(0, "")

    def after_fork():
        # A child shares neither our channel nor the end of a run, nor threads that hold the lock.
        nonlocal lock, busy
        lock, busy = RLock(), False
        channel.close()

    os.register_at_fork(after_in_child=after_fork)

    # Rich forms.

    methods = (
        ("text/html", "_repr_html_"),
        ("text/markdown", "_repr_markdown_"),
        ("image/svg+xml", "_repr_svg_"),
        ("image/png", "_repr_png_"),
        ("image/jpeg", "_repr_jpeg_"),
        ("application/pdf", "_repr_pdf_"),
        ("text/latex", "_repr_latex_"),
        ("application/json", "_repr_json_"),
        ("application/javascript", "_repr_javascript_"),
    )

    def as_text(mime, value):
        if isinstance(value, (bytes, bytearray, memoryview)):
            import base64

            return base64.b64encode(bytes(value)).decode("ascii")
        if mime == "application/json" or mime.endswith("+json"):
            import json

            return json.dumps(value, default=str)
        return str(value)

    def figure_png(figure):
        data = io.BytesIO()
        figure.savefig(data, format="png", bbox_inches="tight")
        return data.getvalue()

    def forms(value):
        found = {}
        if not isinstance(value, type):
            bundle = getattr(value, "_repr_mimebundle_", None)
            if callable(bundle):
                made = bundle(include=None, exclude=None)
                made = made[0] if isinstance(made, tuple) else made
                found.update({mime: part for mime, part in (made or {}).items() if part is not None})
            for mime, name in methods:
                method = getattr(value, name, None)
                if mime in found or not callable(method):
                    continue
                try:
                    made = method()
                except NotImplementedError:
                    continue
                made = made[0] if isinstance(made, tuple) else made
                if made is not None:
                    found[mime] = made
            kind = type(value)
            if kind.__name__ == "Figure" and kind.__module__.startswith("matplotlib."):
                found.setdefault("image/png", figure_png(value))
        if "text/plain" not in found:
            found["text/plain"] = repr(value)
        return {mime: as_text(mime, part) for mime, part in found.items()}

    def emit(is_main, data):
        settle()
        strings = ["data", "1" if is_main else "0"]
        for mime, text in data.items():
            strings += (str(mime), text)
        # What is written next must not be taken for written before.
        send(*strings, wait=not is_main)

    def display(*values, raw=False, **_):
        """Shows values in all the forms they have; with raw=True, dicts of data by MIME type."""
        for value in values:
            if raw:
                emit(False, {mime: as_text(mime, part) for mime, part in value.items()})
            else:
                emit(False, forms(value))

    builtins.display = display

    def show_figures(*_, **__):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or not hasattr(pyplot, "get_fignums"):
            return
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if figure.axes or figure.texts or figure.images or figure.lines:
                emit(False, {"image/png": as_text("image/png", figure_png(figure)), "text/plain": repr(figure)})
        pyplot.close("all")

    class PyplotHook:
        """Sees matplotlib.pyplot being imported: draws into memory, and shows through us."""

        def find_spec(self, name, path=None, target=None):
            if name != "matplotlib.pyplot":
                return None
            sys.meta_path.remove(self)
            from importlib.util import find_spec

            if not os.environ.get("MPLBACKEND"):
                import matplotlib

                matplotlib.use("agg")
            spec = find_spec(name)
            if spec is not None and spec.loader is not None:
                loader = spec.loader
                load = loader.exec_module

                def exec_module(module):
                    load(module)
                    module.show = show_figures

                loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, PyplotHook())

    # Runs.

    count = 0
    loop = None

    def await_it(coroutine):
        nonlocal loop
        import asyncio

        if loop is None or loop.is_closed():
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()
            try:
                loop.run_until_complete(task)
            except asyncio.CancelledError:
                pass
            raise

    def evaluate(code):
        value = eval(code, main.__dict__)
        # A code object with a top-level await is a coroutine function's.
        return await_it(value) if code.co_flags & 0x80 else value

    def run(text, name):
        lines = text.splitlines(True)
        linecache.cache[name] = (len(text), None, lines, name)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(text, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not text.rstrip().endswith(";"):
            last = ast.Expression(tree.body.pop().value)
        if tree.body:
            evaluate(compile(tree, name, "exec", flags, dont_inherit=True))
        if last is not None:
            value = evaluate(compile(last, name, "eval", flags, dont_inherit=True))
            if value is not None:
                builtins._ = value
                return forms(value)
        return None

    def without_us(shown):
        while shown is not None:
            frames = [frame for frame in shown.stack if frame.filename != own]
            shown.stack = traceback.StackSummary.from_list(frames)
            shown = shown.__cause__ or shown.__context__

    def cut(text):
        return text if len(text) <= longest_error else text[:longest_error] + " (cut)"

    def report(error):
        name = name_of(type(error))
        try:
            shown = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
            without_us(shown)
            text = "".join(shown.format())
        except BaseException as worse:
            text = "%s (its traceback cannot be shown: %s)\n" % (name, name_of(type(worse)))
        try:
            value = "0" if isinstance(error, SystemExit) and error.code is None else str(error)
            value = str.__getitem__(value, slice(None))
        except BaseException:
            value = "<unprintable %s>" % name
        send("error", cut(name), cut(value), *cut(text).rstrip("\n").split("\n"))

    def change_environment(changes, before):
        while changes:
            name, is_set, value = changes[:3]
            changes = changes[3:]
            before[name] = os.environ.get(name)
            if is_set == "1":
                os.environ[name] = value
            else:
                os.environ.pop(name, None)

    def restore_environment(before):
        for name, value in before.items():
            try:
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            except BaseException:
                pass

    def settle():
        for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
            try:
                getattr(sys, name).flush()
            except BaseException as error:
                # Only an interrupt is raised while code runs; the rest is its own affair.
                if running and isinstance(error, KeyboardInterrupt):
                    raise

    send("hello", "Python " + sys.version.split()[0])
    while True:
        kind, *rest = receive()
        if kind == "init":
            try:
                chdir(rest[0])
                send("ready")
            except OSError as error:
                send("refused", error.strerror)
            continue
        count += 1
        status = "ok"
        before = {}
        try:
            try:
                running = True
                change_environment(rest[1:], before)
                value = run(rest[0], "<run-%d>" % count)
                show_figures()
                if value is not None:
                    emit(True, value)
            finally:
                running = False
        except BaseException as error:
            if getpid() == pid:
                status = "error"
                settle()
                report(error)
                error = None
        restore_environment(before)
        settle()
        if getpid() != pid:
            # A fork of the user's code came back here: it is over, as it would be at the end of a script.
            _exit(0)
        send("done", status)


drive()
