"""The code in docs/guides/clients and in the README, run: what a page shows is what happens.

The code of a section is one program, of which only the port is changed. A service takes orders until
SIGTERM, so each gets one order that can be done and one that cannot, and is stopped when it has handled both.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import redis

from router import Memcached, Router
from tier import ROOT, Tier

GUIDES = ROOT / "docs" / "guides" / "clients"
HERE = Path(__file__).parent
PYTHON_PATH = str(ROOT / "clients" / "python" / "src")
BUILD_S = 300
# Longer than redis-py tries: up to 5.3 s.
AWAY_S = 6
pytestmark = pytest.mark.timeout(BUILD_S + 60)


def programs(page: str, language: str) -> dict[str, str]:
    """The code of each section of a guide that has some, by the section's title."""
    found: dict[str, str] = {}
    for section in re.split(r"^## ", (GUIDES / page).read_text("utf-8"), flags=re.M)[1:]:
        title, text = section.split("\n", 1)
        if code := re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S):
            found[title] = "\n".join(code)
    return found


def service(page: str, language: str, port: int) -> str:
    """The only program of a guide, for a tier on this port."""
    (code,) = programs(page, language).values()
    return with_port(code, "7411", port)


def with_port(code: str, usual: str, port: int) -> str:
    """The code with another port than the usual one, which it must name."""
    assert usual in code
    return code.replace(usual, str(port))


def serve(tier: Tier, command: Sequence[str | Path], **environment: str) -> None:
    """Run a service until it has done its orders as its guide says, the last after the tier was away."""
    send(tier, "two coffees", "")
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    wait_until_done(tier, process)
    tier.stop()
    time.sleep(AWAY_S)
    tier.start()
    send(tier, "one cake")
    wait_until_done(tier, process)
    process.send_signal(signal.SIGTERM)
    said, complained = process.communicate(timeout=60)
    assert process.returncode in (0, 128 + signal.SIGTERM), complained
    assert sorted(line for line in said.splitlines() if line.startswith("done")) == [
        "done: one cake",
        "done: one tea",
        "done: two coffees",
    ]


def send(tier: Tier, *orders: str) -> None:
    """Orders for a service."""
    with redis.Redis(port=tier.port) as client:
        client.execute_command("QCREATE", "orders")
        for order in orders:
            client.execute_command("SEND", "orders", order)


def wait_until_done(tier: Tier, service: subprocess.Popen[str]) -> None:
    """Until nothing is left but the empty order, which was given back with a delay."""
    end = time.monotonic() + BUILD_S
    with redis.Redis(port=tier.port, protocol=3) as client:
        while not (queue := client.execute_command("QINFO", "orders"))[b"delayed"] == queue[b"messages"] == 1:
            if service.poll() is not None or time.monotonic() > end:
                service.kill()
                pytest.fail("it did not do its orders:\n" + "".join(service.communicate()))
            time.sleep(0.05)


def test_the_readme(tier: Tier) -> None:
    """The first message in Python."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    command = [sys.executable, "-c", with_port(code, "7411", tier.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "two coffees\n"


@pytest.mark.parametrize("title", programs("python.md", "python"))
def test_python(title: str, tier: Tier, tmp_path: Path) -> None:
    """The typed client and redis-py, both blocking and with asyncio."""
    code = with_port(programs("python.md", "python")[title], "7411", tier.port)
    (tmp_path / "service.py").write_text(code, "utf-8")
    serve(tier, [sys.executable, tmp_path / "service.py"], PYTHONPATH=PYTHON_PATH)


def test_node(tier: Tier, tmp_path: Path) -> None:
    """With ioredis."""
    if shutil.which("node") is None:
        pytest.skip("Node.js is not here")
    (tmp_path / "node_modules").symlink_to(HERE / "node" / "node_modules")
    (tmp_path / "service.mjs").write_text(service("node.md", "javascript", tier.port), "utf-8")
    serve(tier, ["node", tmp_path / "service.mjs"])


def test_go(tier: Tier, tmp_path: Path) -> None:
    """With go-redis."""
    if shutil.which("go") is None:
        pytest.skip("Go is not here")
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / "go" / name, tmp_path)
    (tmp_path / "main.go").write_text(service("go.md", "go", tier.port), "utf-8")
    own_compiler = {**os.environ, "GOTOOLCHAIN": "local"}
    subprocess.run(
        ["go", "build", "-o", "service", "."], cwd=tmp_path, env=own_compiler, check=True, timeout=BUILD_S
    )
    serve(tier, [tmp_path / "service"])


def test_java(tier: Tier, tmp_path: Path) -> None:
    """With Jedis."""
    if shutil.which("javac") is None or shutil.which("mvn") is None:
        pytest.skip("a Java compiler and Maven are not here")
    jars = tmp_path / "jars"
    subprocess.run(
        ["mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"],
        cwd=HERE / "java",
        check=True,
        timeout=BUILD_S,
    )
    (tmp_path / "Service.java").write_text(service("java.md", "java", tier.port), "utf-8")
    classes = f"{jars}/*:{tmp_path}"
    subprocess.run(
        ["javac", "-Xlint:all", "-Werror", "--class-path", classes, "Service.java"], cwd=tmp_path, check=True
    )
    serve(tier, ["java", "--class-path", classes, "Service"])


@pytest.mark.parametrize("title", programs("memcached.md", "python"))
def test_memcached(title: str, memcached: Callable[[], Memcached], tmp_path: Path) -> None:
    """The page's assertions hold, through a router with two servers."""
    router = Router([memcached(), memcached()])
    try:
        code = with_port(programs("memcached.md", "python")[title], "7412", router.port)
        (tmp_path / "program.py").write_text(code, "utf-8")
        subprocess.run([sys.executable, tmp_path / "program.py"], check=True, timeout=60)
    finally:
        router.stop()
