"""Certificates for tests, made by openssl(1): an authority, and what it signs."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path

    def flags(self) -> list[str]:
        """The options of a tier that shows it."""
        return ["--tls-cert", str(self.certificate), "--tls-key", str(self.key)]


class Authority:
    """An authority, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        """Make it."""
        directory.mkdir()
        self._directory = directory
        self.certificate = directory / "ca.crt"
        self._key = directory / "ca.key"
        _request(self._key, self.certificate, "-x509", "-days", "2", "-subj", f"/CN={directory.name}")

    def issue(self, name: str, days: int = 2) -> Pair:
        """Sign a certificate for localhost and 127.0.0.1; with -1 days it is over already."""
        pair = Pair(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        wanted = self._directory / f"{name}.csr"
        names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
        limits = "basicConstraints=critical,CA:FALSE"
        _request(pair.key, wanted, "-subj", f"/CN={name}", "-addext", names, "-addext", limits)
        _run(
            *("openssl", "x509", "-req", "-copy_extensions", "copy", "-CAcreateserial", "-days", str(days)),
            *("-in", str(wanted), "-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-out", str(pair.certificate)),
        )
        return pair

    def context(self, own: Pair | None = None) -> ssl.SSLContext:
        """What a client needs that trusts this authority."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        if own is not None:
            context.load_cert_chain(own.certificate, own.key)
        return context


def _request(key: Path, out: Path, *arguments: str) -> None:
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _run("openssl", "req", *curve, "-keyout", str(key), "-out", str(out), *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
