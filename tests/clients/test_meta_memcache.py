"""meta-memcache against the cache tier: a client that speaks the meta commands and nothing else."""

import socket
from collections.abc import Callable, Iterator

import pytest
from meta_memcache.cache_client import CacheClient
from meta_memcache.configuration import LeasePolicy, ServerAddress, socket_factory_builder
from meta_memcache.connection.pool import ConnectionPool
from meta_memcache.interfaces.cache_api import CacheApi
from meta_memcache.protocol import Key, SetMode

from router import Memcached, Router


@pytest.fixture(params=[(1, "pipelined"), (3, "pipelined"), (3, "2")], ids=str)
def cache(request: pytest.FixtureRequest, memcached: Callable[[], Memcached]) -> Iterator[CacheApi]:
    """A client of a router in front of so many servers, in this mode."""
    servers, workers = request.param
    router = Router([memcached() for _ in range(servers)], "--workers", workers)
    connect = socket_factory_builder("127.0.0.1", router.port, 10, 10, True)
    # The library leaves its connections to the garbage collector.
    connections: list[socket.socket] = []

    def connected() -> socket.socket:
        connections.append(connect())
        return connections[-1]

    def pool(server: ServerAddress) -> ConnectionPool:
        return ConnectionPool(str(server), connected, initial_pool_size=1, max_pool_size=3)

    yield CacheClient.cache_client_from_servers(
        servers=[ServerAddress("127.0.0.1", router.port)], connection_pool_factory_fn=pool
    )
    for connection in connections:
        connection.close()
    router.stop()


def test_values_of_any_kind_under_keys_of_any_bytes(cache: CacheApi) -> None:
    """A key that is no word is sent in base64, and is the same key in every command."""
    for key in ["plain", "with space", "\N{BEER MUG}", "k" * 300]:
        for value in ["text", b"\r\nEN\r\nVA 3\r\n", {"a": [1, 2]}, "x" * 100_000]:
            assert cache.set(key, value, ttl=100)
            assert cache.get(key) == value
        assert cache.touch(key, ttl=50)
        assert cache.delete(key)
        assert cache.get(key) is None


def test_a_burst_of_quiet_gets_is_answered_key_by_key(cache: CacheApi) -> None:
    """They are sent in one write, and each answer finds its key."""
    for number in range(0, 200, 2):
        assert cache.set(f"key{number}", number, ttl=100)
    keys = [Key(f"key{number}") for number in range(200)]
    found = cache.multi_get(keys)
    assert [found[key] for key in keys] == [n if n % 2 == 0 else None for n in range(200)]


def test_modes_and_tokens(cache: CacheApi) -> None:
    """Whichever replica is asked, a token is good once, whether a set gave it or a get."""
    assert cache.set("a", 1, ttl=100, set_mode=SetMode.ADD)
    assert not cache.set("a", 2, ttl=100, set_mode=SetMode.ADD)
    assert not cache.set("b", 2, ttl=100, set_mode=SetMode.REPLACE)
    for _ in range(4):
        value, token = cache.get_cas("a")
        assert cache.set("a", (value or 0) + 1, ttl=100, cas_token=token)
        assert not cache.set("a", "stale", ttl=100, cas_token=token)
    assert cache.get("a") == 5
    for number in range(4):
        given = cache.set_cas("c", number, ttl=100)
        assert given is not None
        assert cache.set("c", "next", ttl=100, cas_token=given)


def test_counters(cache: CacheApi) -> None:
    """Counted once, however many replicas there are."""
    assert cache.delta_and_get("n", 1) is None
    counts = [cache.delta_initialize_and_get("n", 3, initial_value=5, initial_ttl=100) for _ in range(4)]
    assert counts == [5, 8, 11, 14]
    assert [cache.delta_and_get("n", -4) for _ in range(3)] == [10, 6, 2]


def test_one_of_those_who_miss_a_key_gets_the_lease(cache: CacheApi) -> None:
    """The others get neither a value nor a token until it is there."""
    policy = LeasePolicy(ttl=30, miss_retries=1)
    value, token = cache.get_or_lease_cas("report", lease_policy=policy)
    assert value is None
    assert token is not None
    assert cache.get_or_lease("report", lease_policy=policy) is None
    assert cache.set("report", "done", ttl=100, cas_token=token)
    assert cache.get_or_lease("report", lease_policy=policy) == "done"
