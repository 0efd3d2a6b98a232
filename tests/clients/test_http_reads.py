"""HTTP: what is read from queues, with options, in lists and by pages."""

from collections.abc import Callable

import redis

from tier import Tier, message
from web import HTTP, ask


def test_a_peek_takes_the_options_of_a_pop(web: Tier) -> None:
    """It shows what a pop with the same options would take."""
    ask(web, "POST", "/v1/queues", {"name": "q"})
    for sent in ({"body": "own", "to": "default"}, {"body": "for anyone"}):
        assert ask(web, "POST", "/v1/queues/q/messages", sent)[0] == 201
    client = redis.Redis(port=web.port, protocol=3)
    client.execute_command("LOGIN", "bob")
    client.execute_command("SEND", "q", "from bob", "TO", "default")
    client.execute_command("SEND", "q", "from bob for anyone")

    def bodies(options: str) -> list[str]:
        status, seen = ask(web, "GET", f"/v1/queues/q/messages?peek=1&count=9{options}")
        assert status == 200, seen
        return [found["body"] for found in seen["messages"]]

    assert bodies("") == ["own", "for anyone", "from bob", "from bob for anyone"]
    assert bodies("&not_own=true") == bodies("&not_own=1") == ["from bob", "from bob for anyone"]
    assert bodies("&not_own=false&broadcast=0&any_order=false") == bodies("")
    assert bodies("&broadcast=true") == ["for anyone", "from bob for anyone"]
    assert bodies("&broadcast=true&not_own=true") == ["from bob for anyone"]
    assert sorted(bodies("&any_order=true")) == sorted(bodies(""))
    for option in ("not_own", "broadcast", "any_order"):
        assert ask(web, "GET", f"/v1/queues/q/messages?{option}=true")[0] == 400


def test_a_list_of_readable_queues_may_leave_out_what_holds_only_ones_own(web: Tier) -> None:
    """As a pop with not_own leaves it out."""
    client = redis.Redis(port=web.port)
    for queue in ("own", "other"):
        ask(web, "POST", "/v1/queues", {"name": queue})
        ask(web, "POST", f"/v1/queues/{queue}/messages", {"body": "mine"})
    client.execute_command("LOGIN", "bob")
    client.execute_command("SEND", "other", "bob's")
    assert ask(web, "GET", "/v1/readable") == (200, {"queues": ["own", "other"]})
    assert ask(web, "GET", "/v1/readable?not_own=true") == (200, {"queues": ["other"]})
    assert ask(web, "GET", "/v1/readable?not_own=maybe")[0] == 400


def test_a_long_list_comes_in_pages(web: Tier) -> None:
    """Searched and sorted by the server."""
    client = redis.Redis(port=web.port)
    for number in range(250):
        client.execute_command("QCREATE", f"Queue-{number:03}")
    for _ in range(3):
        client.execute_command("SEND", "Queue-007", "x")
    client.execute_command("SEND", "Queue-017", "x")
    _, first = ask(web, "GET", "/v1/queues")
    assert (first["total"], len(first["queues"])) == (250, 100)
    _, found = ask(web, "GET", "/v1/queues?search=queue-0&sort=messages&descending=true&limit=3")
    assert found["total"] == 100
    assert [q["name"] for q in found["queues"]] == ["Queue-007", "Queue-017", "Queue-000"]
    _, last = ask(web, "GET", "/v1/queues?sort=name&offset=249")
    assert [q["name"] for q in last["queues"]] == ["Queue-249"]


def test_a_list_of_thousands_is_whole_and_shows_what_was_changed_here(web: Tier) -> None:
    """A console's list is kept for a while when it is long, but not past a change that the console made."""
    client = redis.Redis(port=web.port)
    with client.pipeline(transaction=False) as pipe:
        for number in range(1500):
            pipe.execute_command("QCREATE", f"q{number}")
        pipe.execute()
    assert [message(queue)["id"] for queue in client.execute_command("QLIST")] == list(range(1, 1501))
    assert ask(web, "GET", "/v1/queues")[1]["total"] == 1500
    assert ask(web, "POST", "/v1/queues", {"name": "another"})[0] == 201
    _, last = ask(web, "GET", "/v1/queues?sort=id&descending=true&limit=2")
    assert (last["total"], [queue["name"] for queue in last["queues"]]) == (1501, ["another", "q1499"])
    assert ask(web, "DELETE", "/v1/queues/another")[0] == 200
    _, last = ask(web, "GET", "/v1/queues?offset=1499")
    assert (last["total"], [queue["name"] for queue in last["queues"]]) == (1500, ["q1499"])


def test_messages_are_filtered_page_by_page(web: Tier) -> None:
    """By sender and recipient, whatever their state; a page goes on where the last one ended."""
    client = redis.Redis(port=web.port)
    client.execute_command("QCREATE", "q")
    for number in range(40):
        client.execute_command("LOGIN", f"sender {number % 4}")
        client.execute_command("SEND", "q", number, *(("TO", "bob") if number % 2 else ()))
    path = "/v1/queues/q/messages?from=sender%203&to=bob&count=4"
    bodies: list[int] = []
    after = 0
    while True:
        _, page = ask(web, "GET", f"{path}&after={after}")
        bodies += [int(message["body"]) for message in page["messages"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert bodies == list(range(3, 40, 4))
    _, anyone = ask(web, "GET", "/v1/queues/q/messages?to=-&count=1000")
    assert [int(message["body"]) for message in anyone["messages"]] == list(range(0, 40, 2))


def test_a_page_of_large_messages_ends_early(start: Callable[..., Tier]) -> None:
    """With 8 MiB of bodies and headers, or all would stand in memory at once; each is on some page."""
    web = start(*HTTP, "--max-message", str(2**20))
    client = redis.Redis(port=web.port)
    client.execute_command("QCREATE", "q")
    mebibyte = b"x" * 2**20
    for number in range(20):
        with_header = ("HEADER", "half", mebibyte[::2])
        client.execute_command("SEND", "q", b"%02d" % number + mebibyte[::2], *with_header)
    for filtered in ("", "&from=default"):
        pages: list[list[int]] = []
        after: int | None = 0
        while after is not None:
            _, page = ask(web, "GET", f"/v1/queues/q/messages?count=1000&after={after}{filtered}")
            pages.append([int(message["body"][:2]) for message in page["messages"]])
            after = page["next"]
        assert pages == [list(range(7)), list(range(7, 14)), list(range(14, 20))]
