"""Stands in for the pip bootstrap script that ansible-test wants to download, where that site cannot be reached.

ansible-test makes virtual environments without pip and runs this file in them, with the pip it wants as arguments.
The interpreter brings a pip of its own (ensurepip), which then installs the wanted one from the configured index.
"""

from __future__ import annotations

import subprocess
import sys

# Options of the script we stand in for, unknown to pip.
wanted = [argument for argument in sys.argv[1:] if argument not in ("--no-setuptools", "--no-wheel")]
python = [sys.executable, "-m"]
# A child process, since ensurepip turns pip's configuration off for the process it runs in.
subprocess.run([*python, "ensurepip", "--default-pip"], check=True, stdout=subprocess.DEVNULL)
sys.exit(subprocess.run([*python, "pip", "install", "--quiet", *wanted], check=False).returncode)
