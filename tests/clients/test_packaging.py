"""Tests that facts which packaging repeats agree with the project."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tier import ROOT, program


def test_the_image_is_built_by_the_pinned_compiler() -> None:
    """Or a build in a container would fetch another one, or fail."""
    pinned = tomllib.loads((ROOT / "rust-toolchain.toml").read_text("utf-8"))["toolchain"]["channel"]
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    assert f"FROM rust:{pinned}-" in dockerfile
    assert f"RUSTUP_TOOLCHAIN={pinned}\n" in dockerfile


def test_a_build_takes_no_secrets_along() -> None:
    """Not those of an installation from the compose file, which are made in the tree."""
    left_out = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    made = re.findall(r"^/(deploy/\S+)$", (ROOT / ".gitignore").read_text("utf-8"), re.M)
    assert len(made) == 3
    for path in made:
        assert any(path == name or path.startswith(f"{name}/") for name in left_out), path


def test_images_carry_the_version_of_the_program() -> None:
    """In the compose file, in the manifests, and in the guide."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]["version"]
    files = [*(ROOT / "deploy").rglob("*.yaml"), ROOT / "docs" / "guides" / "install.md"]
    found = [tag for file in files for tag in re.findall(r"posthaste:(\d[\w.]*)", file.read_text("utf-8"))]
    assert len(found) >= 5
    assert set(found) == {version}
    assert f"newTag: {version}\n" in (ROOT / "deploy" / "kubernetes" / "kustomization.yaml").read_text(
        "utf-8"
    )


def test_the_services_differ_only_in_what_their_tier_needs() -> None:
    """Hardening that one has and the other lacks would be an oversight."""
    units = [
        (ROOT / "packaging" / "systemd" / f"posthaste-{tier}.service").read_text("utf-8")
        for tier in ("queue", "cache")
    ]
    hardening = [unit[unit.index("AmbientCapabilities=") : unit.index("[Install]")] for unit in units]
    assert hardening[0] == hardening[1]


@pytest.mark.parametrize("tier", ["queue", "cache"])
def test_a_service_is_tried_until_what_it_needs_is_there(tier: str) -> None:
    """After a power cut the database may be up last. Wrong options are told once, and not every second."""
    unit = (ROOT / "packaging" / "systemd" / f"posthaste-{tier}.service").read_text("utf-8")
    head = unit[unit.index("[Unit]") : unit.index("[Service]")]
    assert "\nStartLimitIntervalSec=0\n" in head
    (given_up,) = re.findall(r"^RestartPreventExitStatus=(.*)$", unit, re.M)
    away = "--store=postgres://app@127.0.0.1:1/none" if tier == "queue" else "--server=nowhere.invalid"
    unknown = "--listen=nowhere.invalid:0"
    for arguments, is_tried_again in (((away,), True), ((away, unknown), True), (("--nonsense",), False)):
        command = [str(program()), tier, "--listen=127.0.0.1:0", "--http=off", *arguments]
        code = subprocess.run(command, capture_output=True, timeout=60, check=False).returncode
        assert code != 0
        assert (str(code) not in given_up.split()) == is_tried_again


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    """Each option in its section, and none that it does not know; those too that are comments."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    for unit in (ROOT / "packaging" / "systemd").iterdir():
        text = unit.read_text("utf-8").replace("/usr/bin/posthaste", str(program().resolve()))
        text = re.sub(r"^#(\w+=)", r"\1", text, flags=re.M)
        (tmp_path / unit.name).write_text(text, "utf-8")
    command = ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "posthaste" in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.parametrize("queue", ["queue.yaml", "queue-embedded.yaml"])
def test_what_is_to_be_encrypted_is(queue: str, tmp_path: Path) -> None:
    """Both tiers, whichever store: a patch that finds nothing to change would not say so."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not here")
    deploy = tmp_path / "deploy"
    shutil.copytree(ROOT / "deploy", deploy)
    chosen = deploy / "kubernetes" / "kustomization.yaml"
    chosen.write_text(chosen.read_text("utf-8").replace("- queue.yaml", f"- {queue}"), "utf-8")
    command: list[str | Path] = ["kubectl", "kustomize", deploy / "kubernetes-tls"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    tiers = [text for text in made.split("\n---\n") if "--listen=" in text]
    assert len(tiers) == 2
    for tier in tiers:
        assert "--tls-cert=" in tier
        assert "--tls-key=" in tier
        assert tier.count("scheme: HTTPS") == tier.count("httpGet:") == 3


@pytest.mark.parametrize(("manifest", "times"), [("queue-embedded", 2), ("cache", 1)])
def test_a_pod_is_full_before_it_is_killed(manifest: str, times: int) -> None:
    """The bound that a tier keeps lies within that of its pod, with room for the rest of it."""
    text = (ROOT / "deploy" / "kubernetes" / f"{manifest}.yaml").read_text("utf-8")
    (limit,) = re.findall(r"limits: \{ memory: (\d+\wi) \}", text)
    usual = (ROOT / "deploy" / "posthaste.toml").read_text("utf-8")
    bounds = re.findall(r"--memory-limit=(\d+)", text) or re.findall(r"^#memory-limit = (\d+)", usual, re.M)
    bytes_of = {"Mi": 2**20, "Gi": 2**30}
    assert int(bounds[0]) * times + 200 * 2**20 < int(limit[:-2]) * bytes_of[limit[-2:]]


@pytest.mark.parametrize("manifest", ["queue", "cache"])
def test_a_pod_is_still_there_for_who_has_not_heard_of_its_end(manifest: str) -> None:
    """And there is time for that and for the drain before the pod is killed."""
    text = (ROOT / "deploy" / "kubernetes" / f"{manifest}.yaml").read_text("utf-8")
    (grace,) = re.findall(r"^ +terminationGracePeriodSeconds: (\d+)$", text, re.M)
    (before,) = re.findall(r'preStop: \{ exec: \{ command: \[sleep, "(\d+)"\] \} \}', text)
    usual = (ROOT / "deploy" / "posthaste.toml").read_text("utf-8")
    drain = max(int(seconds) for seconds in re.findall(r'^#drain = "(\d+)s"', usual, re.M))
    assert int(before) > 0
    assert int(before) + drain + 10 <= int(grace)


@pytest.mark.parametrize("manifest", ["queue", "cache", "memcached"])
def test_pods_of_one_kind_are_spread_over_nodes(manifest: str) -> None:
    """Or one node that is lost takes all of them with it."""
    text = (ROOT / "deploy" / "kubernetes" / f"{manifest}.yaml").read_text("utf-8")
    assert text.count("topologySpreadConstraints:") == text.count("replicas:") == 1
    assert "topologyKey: kubernetes.io/hostname" in text


def test_what_containers_say_does_not_fill_the_disk() -> None:
    """Docker keeps all of it, where it is not told otherwise: every image of the compose file is."""
    text = (ROOT / "deploy" / "compose" / "compose.yaml").read_text("utf-8")
    bounded = r"^x-logging: &logging\n  driver: local\n  options: \{ max-size: \d+m, max-file: "
    assert re.search(bounded, text, re.M)
    logged, images = (re.findall(part, text, re.M) for part in (r"^ +logging: \*logging\n", r"^ +image: "))
    assert len(logged) == len(images) > 0


def test_directories_of_the_compose_file_are_made_by_who_starts_it() -> None:
    """One that Docker makes belongs to another user than the containers run as."""
    text = (ROOT / "deploy" / "compose" / "compose.yaml").read_text("utf-8")
    guide = (ROOT / "docs" / "guides" / "install.md").read_text("utf-8")
    needed = set(re.findall(r"\./(\w+)[:,]", text))
    assert needed == {"accounts", "figures"}
    assert f"mkdir -m 700 {' '.join(sorted(needed))}\n" in guide
    ignored = (ROOT / "deploy" / "compose" / ".gitignore").read_text("utf-8").splitlines()
    assert {f"{directory}/" for directory in needed} <= set(ignored), "what is in them is no part of this"
    for service in re.findall(r"^  [\w-]+:.*\n(?:    .*\n|\n)+", text, re.M):
        if "    user:" in service:
            assert not re.search(r"^ +- \w[\w-]*:/", service, re.M), "a volume that Docker makes"


def test_the_guide_backs_up_the_store_that_the_service_has() -> None:
    """A directory above it is no store."""
    unit = (ROOT / "packaging" / "systemd" / "posthaste-queue.service").read_text("utf-8")
    options = (ROOT / "deploy" / "posthaste.toml").read_text("utf-8")
    (works_in,) = re.findall(r"^WorkingDirectory=(.*)$", unit, re.M)
    (store,) = re.findall(r'^#store = "embedded:\./(.*)"$', options, re.M)
    guide = (ROOT / "docs" / "guides" / "backup.md").read_text("utf-8")
    assert f"admin backup --store embedded:{works_in}/{store} " in guide
    assert f"chown -R posthaste:posthaste {works_in}/{store}\n" in guide


def test_the_guide_reads_a_backup_as_who_made_it() -> None:
    """A copy is for its owner alone, and the guide has root make it."""
    guide = (ROOT / "docs" / "guides" / "backup.md").read_text("utf-8")
    shells = re.findall(r"^```sh\n(.*?)^```$", guide, re.M | re.S)
    using = [line for shell in shells for line in shell.splitlines() if "/backup/" in line]
    assert len(using) == 3
    assert all(line.startswith("sudo ") for line in using), using
