"""Tests the web console's modules without a browser, by the test runner of Node.js."""

import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def test_what_the_console_computes() -> None:
    """Shares and percentiles between two looks; what a model answers."""
    done = subprocess.run(
        ["node", "--test", *sorted((HERE / "node").glob("*.test.js"))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
