"""The command line: starts it in Node.js."""

import os
import sys

from ._node import command, environment


def main() -> None:
    args = [*command("dist/cli/main.js"), *sys.argv[1:]]
    if sys.platform == "win32":
        import subprocess

        sys.exit(subprocess.call(args, env=environment()))
    # Takes this process's place, so signals reach it.
    os.execve(args[0], args, environment())


if __name__ == "__main__":
    main()
