"""TLS with the clients people use: redis-py, pymemcache, curl, and memcached behind the router."""

import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import redis
from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheError, MemcacheServerError

from certificates import Authority, Pair
from router import Memcached, Router
from tier import Tier, message

ONCE = redis.retry.Retry(redis.backoff.NoBackoff(), 0)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Whom the clients trust."""
    return Authority(tmp_path / "authority")


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    """Whom nobody trusts."""
    return Authority(tmp_path / "stranger")


def redis_client(tier: Tier, trusts: Authority, own: Pair | None = None) -> redis.Redis:
    """A client that looks closely, and tries once."""
    return redis.Redis(
        port=tier.port,
        protocol=3,
        retry=ONCE,
        socket_timeout=20,
        ssl=True,
        ssl_ca_certs=str(trusts.certificate),
        ssl_certfile=str(own.certificate) if own else None,
        ssl_keyfile=str(own.key) if own else None,
    )


def memcached_client(port: int, context: ssl.SSLContext) -> Client:
    """A client for the cache tier."""
    return Client(("127.0.0.1", port), timeout=20, tls_context=context)


def curl(tier: Tier, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Ask HTTP."""
    command = ["curl", "--silent", "--show-error", "--max-time", "20", *arguments]
    return subprocess.run(
        [*command, f"https://127.0.0.1:{tier.http_port}{path}"], capture_output=True, text=True, check=False
    )


def test_redis_py_sends_and_pops_over_tls(start: Callable[..., Tier], authority: Authority) -> None:
    """Bodies of every size around a record's arrive whole."""
    tier = start(*authority.issue("server").flags(), "--max-message", "3000000")
    with closing(redis_client(tier, authority)) as client:
        client.execute_command("QCREATE", "q")
        for size in (0, 1, 16_383, 16_384, 16_385, 65_536, 2_500_000):
            body = bytes(i % 251 for i in range(size))
            client.execute_command("SEND", "q", body)
            assert message(client.execute_command("POP", "QUEUE", "q"))["body"] == body
        with client.pipeline(transaction=False) as pipe:
            for i in range(1000):
                pipe.execute_command("SEND", "q", f"body {i}")
            assert len(set(pipe.execute())) == 1000


def test_a_pop_waits_over_tls(start: Callable[..., Tier], authority: Authority) -> None:
    """An answer that comes of itself reaches a client that only listens."""
    tier = start(*authority.issue("server").flags())
    with closing(redis_client(tier, authority)) as sender, closing(redis_client(tier, authority)) as waiter:
        sender.execute_command("QCREATE", "q")
        connection = waiter.connection_pool.get_connection()
        connection.send_command("POP", "QUEUE", "q", "BLOCK", "20000")
        sender.execute_command("SEND", "q", "news")
        assert message(connection.read_response())["body"] == b"news"
        waiter.connection_pool.release(connection)


def test_redis_py_stays_outside_without_the_right_certificate(
    start: Callable[..., Tier], authority: Authority, stranger: Authority
) -> None:
    """None, somebody else's, and one whose time is over; and a client leaves a server it does not trust."""
    tier = start(*authority.issue("server").flags(), "--tls-ca", str(authority.certificate))
    for own in (None, stranger.issue("client"), authority.issue("late", days=-1)):
        with closing(redis_client(tier, authority, own)) as client, pytest.raises(redis.ConnectionError):
            client.ping()
    with (
        closing(redis_client(tier, stranger, authority.issue("other"))) as client,
        pytest.raises(redis.ConnectionError, match="certificate verify failed"),
    ):
        client.ping()
    with closing(redis_client(tier, authority, authority.issue("client"))) as client:
        assert client.ping()
        assert int(client.info("clients")["handshakes_failed"]) >= 4


def test_a_client_refuses_a_server_whose_time_is_over(
    start: Callable[..., Tier], authority: Authority
) -> None:
    """The server starts, for its clients are the judges."""
    tier = start(*authority.issue("late", days=-1).flags())
    with (
        closing(redis_client(tier, authority)) as client,
        pytest.raises(redis.ConnectionError, match="expired"),
    ):
        client.ping()


def test_http_is_encrypted_too(start: Callable[..., Tier], authority: Authority) -> None:
    """With client certificates as for every other client."""
    own = authority.issue("client")
    tier = start(
        *authority.issue("server").flags(), "--tls-ca", str(authority.certificate), "--http", "127.0.0.1:0"
    )
    trust = ("--cacert", str(authority.certificate))
    shown = ("--cert", str(own.certificate), "--key", str(own.key))
    assert curl(tier, "/healthz", *trust, *shown).stdout == "ok\n"
    created = curl(tier, "/v1/queues", *trust, *shown, "--json", '{"name": "web"}')
    assert created.returncode == 0, created.stderr
    assert curl(tier, "/v1/queues/web", *trust, *shown).stdout.count('"name":"web"') == 1
    assert curl(tier, "/healthz", *trust).returncode != 0, "without a certificate"
    assert "certificate" in curl(tier, "/healthz", *shown).stderr, "without trust"


@pytest.mark.parametrize("workers", ["pipelined", "2"])
def test_the_cache_tier_speaks_tls_on_both_sides(tmp_path: Path, authority: Authority, workers: str) -> None:
    """Values of every size go through to a memcached that speaks TLS, and come back."""
    pair = authority.issue("memcached")
    servers = [Memcached(tmp_path, pair, authority), Memcached(tmp_path, pair, authority)]
    own = authority.issue("router")
    router = Router(
        servers,
        *("--workers", workers, "--server-tls-ca", str(authority.certificate)),
        *("--server-tls-cert", str(own.certificate), "--server-tls-key", str(own.key)),
        *authority.issue("server").flags(),
    )
    try:
        with closing(memcached_client(router.port, authority.context())) as client:
            for size in (0, 1, 16_384, 100_000, 1_000_000):
                value = bytes(i % 251 for i in range(size))
                assert client.set(f"key{size}", value, noreply=False)
                assert client.get(f"key{size}") == value
            assert client.set_many({f"many{i}": f"value{i}" for i in range(500)}) == []
            found = client.get_many([f"many{i}" for i in range(500)])
            assert found == {f"many{i}": f"value{i}".encode() for i in range(500)}
    finally:
        router.stop()
        for server in servers:
            server.stop()


def test_a_memcached_that_returns_is_taken_back_over_tls(tmp_path: Path, authority: Authority) -> None:
    """Whoever brings it back speaks TLS as well."""
    pair = authority.issue("memcached")
    servers = [Memcached(tmp_path, pair), Memcached(tmp_path, pair)]
    router = Router(servers, "--server-tls-ca", str(authority.certificate))
    try:
        with closing(PooledClient(("127.0.0.1", router.port), timeout=20)) as client:
            assert client.set("key", "value", noreply=False)
            servers[0].stop()
            assert client.set("key", "later", noreply=False)
            servers[0].start_again()
            deadline = time.monotonic() + 120
            while "server takes part again" not in router.log():
                assert time.monotonic() < deadline, router.log()
                client.get("key")
            for _ in range(20):
                assert client.get("key") in (b"later", None), "never what it missed"
    finally:
        router.stop()
        for server in servers:
            server.stop()


def test_a_memcached_nobody_trusts_gets_nothing(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    """Its clients are told that there is no server, and the log says why."""
    server = Memcached(tmp_path, stranger.issue("memcached"))
    router = Router([server], "--server-tls-ca", str(authority.certificate))
    try:
        with (
            closing(Client(("127.0.0.1", router.port), timeout=20)) as client,
            pytest.raises(MemcacheServerError),
        ):
            client.set("key", "value", noreply=False)
    finally:
        router.stop()
        server.stop()
    assert "UnknownIssuer" in router.log()


def test_clients_of_the_cache_tier_show_a_certificate(authority: Authority, stranger: Authority) -> None:
    """As those of the queue tier do."""
    router = Router(
        [], *("--mock", "100"), *authority.issue("server").flags(), "--tls-ca", str(authority.certificate)
    )
    try:
        with closing(memcached_client(router.port, authority.context(authority.issue("client")))) as client:
            assert len(client.get("key")) == 100
        for own in (None, stranger.issue("client")):
            with (
                closing(memcached_client(router.port, authority.context(own))) as client,
                pytest.raises((OSError, MemcacheError)),
            ):
                client.get("key")
        with socket.create_connection(("127.0.0.1", router.port), 20) as plain:
            plain.sendall(b"get key\r\n")
            assert plain.recv(100).startswith(b"SERVER_ERROR this port speaks TLS")
    finally:
        router.stop()
