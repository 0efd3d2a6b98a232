"""The JSON of the cache tier: its servers, where a key goes, who is connected."""

import json
import subprocess
from collections.abc import Callable
from contextlib import closing

import pymemcache
from pymemcache.client.base import Client

from router import Router
from web import ask

HTTP = ("--http", "127.0.0.1:0")


def test_each_server_says_what_it_did_and_how_fast_it_answers(router: Callable[..., Router]) -> None:
    """Every command is counted by its server, and every reply in one of its buckets."""
    tier = router(3, *HTTP)
    with closing(Client(("127.0.0.1", tier.port))) as client:
        for number in range(30):
            client.set(f"key-{number}", "x", noreply=False)
            client.get(f"key-{number}")
    status, answer = ask(tier, "GET", "/v1/servers")
    assert status == 200
    servers = answer["servers"]
    assert [server["name"] for server in servers] == [f"127.0.0.1:{server.port}" for server in tier.servers]
    assert sum(server["requests"] for server in servers) == 30 * 3 + 30
    for server in servers:
        assert (server["state"], server["errors"], server["losses"]) == ("live", 0, 0)
        assert abs(server["share"] - server["requests"] / 120) < 5.1e-5
        below = [pair[0] for pair in server["replies_below_us"]]
        assert below == sorted(below)
        assert sum(pair[1] for pair in server["replies_below_us"]) == server["requests"] >= 30 + 10


def test_a_key_is_where_the_explanation_says(router: Callable[..., Router]) -> None:
    """Asked of that server itself, without the router."""
    tier = router(3, *HTTP, "--writes", "owner")
    with closing(Client(("127.0.0.1", tier.port))) as client:
        for number in range(20):
            client.set(f"key-{number}", str(number), noreply=False)
    for number in range(20):
        _, answer = ask(tier, "GET", f"/v1/routes/explain?key=key-{number}&command=set")
        (found,) = answer["servers"]
        name, state = found.split(" ")
        assert (answer["pool"], state) == ("default", "(live)")
        with closing(Client(name)) as server:
            assert server.get(f"key-{number}") == str(number).encode()
    for method, path, status in (
        ("GET", "/v1/routes/explain?key=a&command=shutdown", 400),
        ("GET", "/v1/routes/explain", 400),
        ("GET", "/v1/windows?last=all", 400),
        ("GET", "/v1/clients?limit=all", 400),
        ("POST", "/v1/servers/state", 400),
        ("PUT", "/v1/servers", 405),
        ("PUT", "/v1/clients", 405),
        ("PUT", "/metrics", 405),
    ):
        refused, answer = ask(tier, method, path)
        assert (refused, answer["error"]) == (status, "ERR"), path
    (pool,) = ask(tier, "GET", "/v1/pools")[1]["pools"]
    assert (pool["hash"], pool["writes"], len(pool["servers"])) == ("ketama", "owner", 3)


def test_clients_are_listed_page_by_page_and_closed(router: Callable[..., Router]) -> None:
    """Over all network threads, by id."""
    tier = router(1, *HTTP, "--threads", "3")
    clients = [Client(("127.0.0.1", tier.port)) for _ in range(7)]
    for number, client in enumerate(clients):
        for _ in range(number + 1):
            client.version()
    first = ask(tier, "GET", "/v1/clients?limit=4")[1]
    rest = ask(tier, "GET", f"/v1/clients?limit=4&after={first[-1]['id']}")[1]
    listed = first + rest
    assert [len(first), len(rest)] == [4, 3]
    assert [client["id"] for client in listed] == sorted({client["id"] for client in listed})
    assert [client["requests"] for client in listed] == [1, 2, 3, 4, 5, 6, 7]
    path = f"/v1/clients/{listed[2]['id']}"
    assert ask(tier, "DELETE", path) == (200, {"closed": 1})
    assert ask(tier, "DELETE", path) == (200, {"closed": 0})
    assert len(ask(tier, "GET", "/v1/clients")[1]) == 6
    try:
        clients[2].version()
        raise AssertionError("the connection is closed")
    except (OSError, pymemcache.MemcacheUnexpectedCloseError):
        pass
    for client in clients:
        client.close()


def test_pages_of_others_learn_and_change_nothing(router: Callable[..., Router]) -> None:
    """And where anybody can ask, nobody can close."""
    tier = router(1, *HTTP)
    for path in ("/v1/status", "/v1/clients"):
        assert ask(tier, "GET", path, headers={"Host": "evil.example"})[0] == 403
        assert ask(tier, "GET", path)[0] == 200
    assert ask(tier, "DELETE", "/v1/clients/1", headers={"Origin": "https://evil.example"})[0] == 403
    assert ask(tier, "GET", "/metrics", headers={"Host": "cache.example"})[0] == 200
    assert ask(tier, "GET", "/nothing")[0] == 404
    everywhere = router(1, "--http", "0.0.0.0:0")
    assert ask(everywhere, "DELETE", "/v1/clients/1") == (
        403,
        {
            "error": "DENIED",
            "message": "connections are closed only where --http is an address of this machine alone",
        },
    )


def test_a_page_that_names_this_machine_as_it_likes_sees_and_changes_no_server(
    router: Callable[..., Router],
) -> None:
    """A browser believes that such a page comes from here; only the name it asks for tells the truth."""
    tier = router(1, *HTTP)
    (server,) = tier.servers
    rebound = {"Host": "evil.example:7481", "Origin": "http://evil.example:7481"}
    down = {"server": server.name, "state": "down"}
    assert ask(tier, "POST", "/v1/servers/state", down, headers=rebound)[0] == 403
    for path in ("servers", "pools", "routes", "routes/explain?key=a", "windows"):
        assert ask(tier, "GET", f"/v1/{path}", headers=rebound)[0] == 403, path
        assert ask(tier, "GET", f"/v1/{path}")[0] == 200, path
    assert ask(tier, "GET", "/v1/servers")[1]["servers"][0]["state"] != "down"
    assert ask(tier, "POST", "/v1/servers/state", down)[0] == 200
    everywhere = router(1, "--http", "0.0.0.0:0")
    by_name = {"Host": "cache.example:7481"}
    for path in ("status", "clients", "servers", "pools", "routes", "routes/explain?key=a", "windows"):
        assert ask(everywhere, "GET", f"/v1/{path}", headers=by_name)[0] == 200, path
    (server,) = everywhere.servers
    for path, body in (
        ("servers/state", {"server": server.name, "state": "down"}),
        ("log-level", {"log_level": "info"}),
    ):
        for sent in ({"Origin": "http://cache.example:7481"}, {"Sec-Fetch-Site": "same-origin"}):
            assert ask(everywhere, "POST", f"/v1/{path}", body, headers=by_name | sent)[0] == 403, sent
        page = {"Host": "10.0.0.7:7481", "Origin": "http://10.0.0.7:7481"}
        assert ask(everywhere, "POST", f"/v1/{path}", body, headers=page)[0] == 200, "no name, and no other's"
        assert ask(everywhere, "POST", f"/v1/{path}", body, headers=by_name)[0] == 200, "a program"


def test_a_tier_on_another_machine_is_asked_by_whatever_it_is_called(router: Callable[..., Router]) -> None:
    """By the programs that ask more than its servers."""
    tier = router(1, "--http", "0.0.0.0:0")
    with closing(Client(("127.0.0.1", tier.port))) as client:
        client.set("key", "x", noreply=False)
        # An address that is no loopback address, and leads there.
        asked = ["admin", "clients", "--json", "--http", f"0.0.0.0:{tier.http_port}"]
        told = subprocess.run([tier.program(), *asked], capture_output=True, check=True, text=True)
    (known,) = json.loads(told.stdout)
    assert known["requests"] == 1


def test_a_tier_without_servers_has_none_to_show(router: Callable[..., Router]) -> None:
    """With --mock."""
    tier = router(0, *HTTP, "--mock")
    assert ask(tier, "GET", "/v1/servers") == (200, {"servers": []})
    assert ask(tier, "GET", "/v1/status")[1]["ready"] is True
