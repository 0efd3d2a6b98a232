"""pymemcache against the cache tier, as applications use it."""

import subprocess
from collections.abc import Callable
from contextlib import closing

import pytest
from pymemcache import MemcacheIllegalInputError, serde
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient

from router import Router


@pytest.mark.parametrize("workers", ["pipelined", "2"])
@pytest.mark.parametrize("servers", [1, 3])
def test_everything_a_client_can_ask(router: Callable[..., Router], servers: int, workers: str) -> None:
    """Sets are sent with noreply by default, in one burst when there are many."""
    with closing(Client(("127.0.0.1", router(servers, "--workers", workers).port))) as client:
        client.set("a", "1", expire=100)
        assert client.get("a") == b"1"
        assert client.incr("a", 5) == 6
        assert client.set_many({f"key{i}": f"value{i}" for i in range(100)}) == []
        found = client.get_many([f"key{i}" for i in range(110)])
        assert found == {f"key{i}": f"value{i}".encode() for i in range(100)}
        assert client.add("a", "2", noreply=False) is False
        assert client.replace("a", "3", noreply=False) is True
        assert client.append("a", "4", noreply=False) is True
        assert client.prepend("a", "2", noreply=False) is True
        value, token = client.gets("a")
        assert value == b"234"
        assert client.cas("a", "5", token) is True
        assert client.cas("a", "6", token) is False
        assert client.touch("a", 50, noreply=False) is True
        assert client.get("a") == b"5"
        assert client.delete("a", noreply=False) is True
        assert client.get("a") is None
        client.delete_many([f"key{i}" for i in range(100)])
        assert client.get_many(["key1", "key99"]) == {}
        client.flush_all()
        assert client.version().startswith(b"1.6.18 posthaste-")
        assert client.stats()[b"servers_live"] == servers


def test_values_of_any_bytes_and_any_size(router: Callable[..., Router]) -> None:
    """What looks like the protocol is only a value; a megabyte passes."""
    with closing(
        PooledClient(("127.0.0.1", router(2).port), serde=serde.pickle_serde, max_pool_size=4)
    ) as client:
        for value in [b"", b"\r\nEND\r\n", b"VALUE a 0 1\r\n", bytes(range(256)), b"x" * 1_000_000]:
            assert client.set("key", value, noreply=False)
            assert client.get("key") == value
        client.set("thing", {"a": [1, 2]}, noreply=False)
        assert client.get("thing") == {"a": [1, 2]}
        with pytest.raises(MemcacheIllegalInputError):
            client.get("k" * 251)


def test_keys_lie_where_pymemcaches_own_hashing_looks_for_them(router: Callable[..., Router]) -> None:
    """A cache filled through the router is found by clients that go to the servers themselves."""
    tier = router(3, "--writes", "owner", "--hash", "rendezvous")
    own = HashClient([("127.0.0.1", server.port) for server in tier.servers])
    with closing(Client(("127.0.0.1", tier.port))) as client:
        for i in range(200):
            client.set(f"key{i}", str(i), noreply=False)
    assert all(own.get(f"key{i}") == str(i).encode() for i in range(200))
    own.disconnect_all()


def test_a_stop_is_graceful(router: Callable[..., Router]) -> None:
    """Exit code 0, with the summary on stdout."""
    tier = router(1)
    with closing(Client(("127.0.0.1", tier.port))) as client:
        client.set("a", "1", noreply=False)
    assert tier.stop() == 0


def test_help_fits_its_purpose() -> None:
    """Every option has a line, and there are examples."""
    said = subprocess.run(
        [Router.program(), "cache", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert all(option in said for option in ["--server", "--writes", "--multiget", "--workers", "Examples:"])
