"""Tests that the web console gives the laboratory's answers from model.json, although it only interpolates."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from simulated import System, write_run

from posthaste_lab.experiments.results import read_run
from posthaste_lab.fitting import fit_run, predict, write_model

ROOT = Path(__file__).resolve().parents[2]
NODE = shutil.which("node")

# Reads a model as the console does, and answers for each number of clients.
ASK = """
import { readFileSync } from "node:fs";
import { answer, readModel } from "%(console)s/model.js";
const [file, ...clients] = process.argv.slice(2);
const model = readModel(readFileSync(file, "utf8")).models[0];
console.log(JSON.stringify(clients.map((n) => answer(model, model.curves[0], Number(n)))));
"""


@pytest.mark.skipif(NODE is None, reason="Node.js is not here")
def test_the_console_answers_as_the_laboratory_does(tmp_path: Path) -> None:
    """At every number of clients in reach: within 2 % where the laboratory has computed no point, with bounds alike."""
    system = System(batch=0.001, request=0.00004, path=0.003, handling=0.00006, visits=0.7)
    fitted = fit_run(read_run(write_run(tmp_path / "run", system, [1, 8, 32], requests=1500)))
    write_model(fitted, tmp_path)
    ask = tmp_path / "ask.mjs"
    ask.write_text(ASK % {"console": (ROOT / "console").as_uri()}, "utf-8")
    model = fitted.models[0]
    reach = model.curves[0].points
    clients = list(range(reach[0].clients, reach[-1].clients + 1))
    done = subprocess.run(
        [str(NODE), ask, tmp_path / "model.json", *map(str, clients)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    for said, known in zip(json.loads(done.stdout), predict(model, clients), strict=True):
        for name in ("throughput_per_s", "response_time_s"):
            estimate = getattr(known, name)
            assert said[name]["value"] == pytest.approx(estimate.value, rel=0.02), (known.clients, name)
            assert said[name]["low"] == pytest.approx(estimate.low, rel=0.03), (known.clients, name)
            assert said[name]["high"] == pytest.approx(estimate.high, rel=0.03), (known.clients, name)
        assert said["extrapolated"] == known.extrapolated
