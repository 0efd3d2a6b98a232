"""Tests that nothing of an earlier report stays beside a new one, and that nothing else is removed."""

from pathlib import Path

from programs import lab
from simulated import System, write_run


def test_what_an_earlier_report_alone_wrote_is_removed(tmp_path: Path) -> None:
    """A chart of a model that is no longer there; not a file of somebody else's, whatever the list says."""
    run = write_run(tmp_path / "run", System(path=0.002), [1, 4, 12, 24], repetitions=2, requests=300)
    report = run / "report"
    lab("fit", run)
    lab("report", run)
    (run / "model.json").unlink()
    others = [report / "figures" / "mine.svg", report / "notes.txt", tmp_path / "outside.csv"]
    for other in others:
        other.write_text("mine", "utf-8")
    held = report / "files.txt"
    held.write_text(held.read_text("utf-8") + "notes.txt\ntables/../../../outside.csv\n", "utf-8")
    lab("report", run)
    left = {f"{path.parent.name}/{path.name}" for path in report.glob("*/*")} - {"figures/mine.svg"}
    assert left == set(held.read_text("utf-8").splitlines())
    assert "figures/load.svg" in left
    assert not [name for name in left if "model" in name]
    assert all(other.read_text("utf-8") == "mine" for other in others)
