"""What packaging repeats of the project agrees with it."""

import re
import tomllib

from tier import ROOT


def test_the_image_is_built_by_the_pinned_compiler() -> None:
    """Or a build in a container would fetch another one, or fail."""
    pinned = tomllib.loads((ROOT / "rust-toolchain.toml").read_text("utf-8"))["toolchain"]["channel"]
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    assert f"FROM rust:{pinned}-" in dockerfile
    assert f"RUSTUP_TOOLCHAIN={pinned}\n" in dockerfile


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
