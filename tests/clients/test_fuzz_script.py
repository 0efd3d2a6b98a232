"""Tests that scripts/fuzz.sh notes every run of a target, with a program in place of the target."""

import csv
import os
import shutil
import subprocess
from pathlib import Path

from tier import ROOT

BASH = shutil.which("bash") or "bash"


def write_program(path: Path, text: str) -> None:
    """A shell script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{BASH}\n{text}\n", "utf-8")
    path.chmod(0o755)


def test_a_target_that_a_signal_ended_is_one_line_of_the_campaigns(tmp_path: Path) -> None:
    """The shell says that it was killed, where the script has its times."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "fuzz.sh", tmp_path / "scripts")
    write_program(tmp_path / "bin" / "rustc", "echo host: here")
    write_program(tmp_path / "bin" / "git", "echo abc1234")
    write_program(
        tmp_path / "built" / "here" / "release" / "parser", 'echo "#512 NEW cov: 70 ft: 80"; kill -KILL $$'
    )
    done = subprocess.run(
        [BASH, tmp_path / "scripts" / "fuzz.sh", "--one", "1", "parser"],
        env={
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "CARGO_TARGET_DIR": str(tmp_path / "built"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 128 + 9, done.stderr
    with (tmp_path / "fuzz" / "campaigns.csv").open(newline="") as lines:
        (row,) = csv.reader(lines)
    assert row[1:] == ["abc1234", "parser", "0", "512", "70", "1"]
