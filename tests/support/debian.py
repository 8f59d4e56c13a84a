"""Programs of Debian that tests use: `python -m tests.support.debian PACKAGE ...` installs what is not there.

Root installs; anybody else is told what is missing, and the tests that need it are skipped with that reason.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

APT = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300")


def missing(packages: Sequence[str]) -> list[str]:
    """Which of these packages are not installed."""
    query = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\\n", *packages]
    said = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split("\n")
    return [package for package in packages if f"{package} installed" not in said]


def install(packages: Sequence[str]) -> str:
    """Install what is missing; a sentence that says why it could not, "" when all is there."""
    if shutil.which("apt-get") is None:
        return f"want {', '.join(packages)}, got no apt-get; the tests that need them are skipped"
    wanted = missing(packages)
    if not wanted:
        return ""
    if os.geteuid() != 0:
        return f"want {', '.join(wanted)}; as root: apt-get install --no-install-recommends {' '.join(wanted)}"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--no-install-recommends", *wanted]):
        subprocess.run([*APT, *words], check=True, env=environment, stdout=subprocess.DEVNULL)
    return ""


if __name__ == "__main__":
    sys.stdout.write(f"{problem}\n" if (problem := install(sys.argv[1:])) else "")
