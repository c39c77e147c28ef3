"""Calls verbs of layergraft in a child process: a request as JSON on its input, lines of JSON on its output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from os import PathLike, fspath
from types import TracebackType
from typing import Any, TypedDict

from ._node import command, environment


class Progress(TypedDict, total=False):
    """How far a call is. `done` and `total` are in `unit`."""

    phase: str
    done: float
    total: float
    unit: str


OnProgress = Callable[[Progress], None]


class LayergraftError(Exception):
    """An error of layergraft. `code` is stable across versions; the message is for people."""

    def __init__(self, message: str, code: str = "layergraft", where: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.where: dict[str, str] = dict(where or {})


class Result(dict[str, Any]):
    """What a call gives: a mapping as the command's JSON has it, whose fields are attributes in Python's spelling, too."""

    def __getattr__(self, name: str) -> Any:
        for key in (name, _camel(name)):
            if key in self:
                return self[key]
        raise AttributeError(name)


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


class _Bars:
    """Progress as bars of tqdm, one for each phase."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._open: Any = None
        self._phase = ""

    def __call__(self, progress: Progress) -> None:
        phase, total = progress.get("phase", ""), progress.get("total", 0)
        if phase != self._phase or self._open is None:
            self.close()
            self._phase = phase
            is_bytes = progress.get("unit") == "bytes"
            self._open = self._bar(total=total, desc=phase, unit="B" if is_bytes else " " + progress.get("unit", ""), unit_scale=is_bytes)
        self._open.total = total
        self._open.update(progress.get("done", 0) - self._open.n)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


def _shown(on_progress: OnProgress | bool | None) -> OnProgress | None:
    """A callback; True for bars of tqdm; None for bars where tqdm is installed and a person watches."""
    if callable(on_progress):
        return on_progress
    # A program without a console has no stderr.
    if on_progress is False or (on_progress is None and not (sys.stderr and sys.stderr.isatty())):
        return None
    try:
        tqdm = import_module("tqdm.auto").tqdm
    except ImportError:
        if on_progress:
            raise ImportError("on_progress=True needs tqdm. Add it with: pip install tqdm") from None
        return None
    return _Bars(tqdm)


class Call:
    """A verb at work. Its events are lines of JSON; leaving it ends the child."""

    def __init__(self, verb: str, request: Mapping[str, Any]) -> None:
        # Before the child starts: an argument may have no JSON.
        self._request = json.dumps({"verb": verb, **request}, default=_plain, allow_nan=False)
        self._child = subprocess.Popen(
            command("dist/calls/main.js"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            encoding="utf-8",
        )

    def __enter__(self) -> Call:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        child = self._child
        if child.poll() is None and kind is not None:
            # What it was writing is removed, or kept to be resumed, before it ends.
            child.send_signal(signal.SIGTERM)
        assert child.stdin is not None and child.stdout is not None
        with suppress(OSError):
            child.stdin.close()
        child.stdout.close()
        child.wait()

    def events(self) -> Iterator[tuple[str, Any]]:
        assert self._child.stdin is not None and self._child.stdout is not None
        # The input stays open: the child ends when it closes, so it does not outlive this process.
        with suppress(OSError):
            self._child.stdin.write(self._request + "\n")
            self._child.stdin.flush()
        for line in self._child.stdout:
            for kind, value in json.loads(line, object_hook=Result).items():
                if kind == "error":
                    raise _error(value)
                yield kind, value
                if kind == "result":
                    return
        raise LayergraftError(f"layergraft ended without a result (status {self._child.wait()})", "ended")


def _error(value: Mapping[str, Any]) -> LayergraftError:
    from . import errors

    kind = getattr(errors, str(value.get("name")), LayergraftError)
    return kind(str(value.get("message")), str(value.get("code")), value.get("where"))


def request(input: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as a request has them; those that were not given are left out."""
    return {"input": _given(input), "options": _given(options)}


def _plain(value: Any) -> Any:
    """What JSON has for a path, an array or number of NumPy or PyTorch, a mapping, or anything with an order."""
    if isinstance(value, PathLike):
        return fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, memoryview, set, frozenset)):
        return list(value)
    raise TypeError(f"{value!r} is {type(value).__name__}, which layergraft does not take")


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def call(verb: str, input: Mapping[str, Any], options: Mapping[str, Any], on_progress: OnProgress | bool | None) -> Any:
    """Carries out a verb, and returns its result."""
    show = _shown(on_progress)
    try:
        with Call(verb, {**request(input, options), "progress": show is not None}) as running:
            for kind, value in running.events():
                if kind == "progress" and show:
                    show(value)
                elif kind == "result":
                    return value
    finally:
        if isinstance(show, _Bars):
            show.close()


def stream(verb: str, input: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    """Parts of a text as they are made."""
    with Call(verb, {**request(input, options), "progress": False, "parts": True}) as running:
        for kind, value in running.events():
            if kind == "part":
                yield value
