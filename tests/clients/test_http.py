"""HTTP: queues and messages as JSON, with nothing but the standard library."""

import base64
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
import redis

from tier import Tier, message
from waiting import are_waiting, until
from web import HTTP, Json, ask


def basic(account: str, secret: str) -> dict[str, str]:
    """How a browser logs in."""
    return {"Authorization": "Basic " + base64.b64encode(f"{account}:{secret}".encode()).decode()}


def test_a_message_goes_its_way(web: Tier) -> None:
    """Made, sent, seen, leased, given back, leased again, acknowledged, deleted."""
    assert ask(web, "POST", "/v1/queues", {"name": "orders"}) == (201, {"id": 1, "name": "orders"})
    sent = {"body": "two coffees", "to": "default", "priority": 5, "headers": {"kind": "order"}}
    assert ask(web, "POST", "/v1/queues/orders/messages", sent) == (201, {"id": 1})
    status, seen = ask(web, "GET", "/v1/queues/orders/messages?peek=1")
    assert status == 200
    (seen_one,) = seen["messages"]
    assert (seen_one["body"], seen_one["from"], seen_one["to"]) == ("two coffees", "default", "default")
    assert (seen_one["priority"], seen_one["headers"], seen_one["deliveries"]) == (5, {"kind": "order"}, 0)
    _, popped = ask(web, "POST", "/v1/queues/orders/pop", {"lease_ms": 60000})
    receipt = popped["messages"][0]["receipt"]
    assert ask(web, "POST", "/v1/queues/orders/pop") == (200, {"messages": []}), "it is leased"
    assert ask(web, "POST", "/v1/queues/orders/extend", {"id": receipt, "lease_ms": 90000}) == (
        200,
        {"extended": 1},
    )
    assert ask(web, "POST", "/v1/queues/orders/nack", {"id": receipt}) == (200, {"returned": 1})
    _, popped = ask(web, "POST", "/v1/queues/orders/pop", {"lease_ms": 60000, "count": 10})
    (again,) = popped["messages"]
    assert again["deliveries"] == 2
    assert ask(web, "POST", "/v1/queues/orders/ack", {"ids": [again["id"]]}) == (200, {"acknowledged": 1})
    assert ask(web, "POST", "/v1/queues/orders/ack", {"id": again["id"]}) == (200, {"acknowledged": 0})
    assert ask(web, "POST", "/v1/queues/orders/ack", {})[0] == 400
    assert ask(web, "GET", "/v1/queues/orders")[1]["messages"] == 0
    assert ask(web, "DELETE", "/v1/queues/orders") == (200, {"removed": 0})
    assert ask(web, "GET", "/v1/queues/orders")[0] == 404


def test_http_and_redis_clients_share_queues(web: Tier) -> None:
    """What one sends the other reads, bytes that are no text included."""
    client = redis.Redis(port=web.port)
    client.execute_command("QCREATE", "a queue/with ümläuts?")
    path = "/v1/queues/a%20queue%2Fwith%20%C3%BCml%C3%A4uts%3F"
    client.execute_command("SEND", "a queue/with ümläuts?", b"\xff\x00\xfe")
    _, seen = ask(web, "GET", f"{path}/messages?peek=1")
    assert seen["messages"][0]["body_base64"] == base64.b64encode(b"\xff\x00\xfe").decode()
    assert "body" not in seen["messages"][0]
    body = {"body_base64": base64.b64encode(bytes(range(256))).decode()}
    assert ask(web, "POST", f"{path}/messages", body)[0] == 201
    client.execute_command("POP", "QUEUE", "a queue/with ümläuts?")
    popped = client.execute_command("POP", "QUEUE", "a queue/with ümläuts?")
    assert message(popped)["body"] == bytes(range(256))
    many = {"bodies": ["a", "b", "c"]}
    assert ask(web, "POST", f"{path}/messages", many) == (201, {"ids": [3, 4, 5]})
    _, browsed = ask(web, "GET", f"{path}/messages?after=3&count=1")
    assert [(m["id"], m["body"], m["state"]) for m in browsed["messages"]] == [(4, "b", "ready")]
    assert browsed["next"] == 4
    assert ask(web, "GET", "/v1/readable") == (200, {"queues": ["a queue/with ümläuts?"]})
    assert ask(web, "POST", f"{path}/purge") == (200, {"removed": 3})


def test_what_cannot_be_done_has_a_status_and_a_sentence(web: Tier) -> None:
    """The words are those that every client gets."""
    ask(web, "POST", "/v1/queues", {"name": "small", "maxmsgs": 1, "forbidself": True})
    ask(web, "POST", "/v1/queues", {"name": "strict", "strict": True})
    cases: list[tuple[str, str, Json, int, str]] = [
        ("GET", "/v1/queues/none", None, 404, "NOQUEUE"),
        ("POST", "/v1/queues/none/pop", {}, 404, "NOQUEUE"),
        ("POST", "/v1/queues/small/messages", {"body": "x", "to": "default"}, 403, "DENIED"),
        ("POST", "/v1/queues/small/messages", {"body": "x" * 70000}, 413, "TOOBIG"),
        ("POST", "/v1/queues/small/messages", {}, 400, "ERR"),
        ("POST", "/v1/queues/small/messages", {"body": "x", "colour": "red"}, 400, "ERR"),
        ("POST", "/v1/queues/small/messages", {"body": "x", "body_base64": "eA=="}, 400, "ERR"),
        ("POST", "/v1/queues/small/messages", {"body_base64": "?"}, 400, "ERR"),
        ("POST", "/v1/queues/small/messages", {"bodies": ["x"], "delay_ms": 1}, 400, "ERR"),
        ("POST", "/v1/queues/small/messages", {"body": "x", "ttl_ms": 0}, 400, "ERR"),
        ("POST", "/v1/queues/small/pop", {"count": 0}, 400, "ERR"),
        ("POST", "/v1/queues/small/pop", [], 400, "ERR"),
        ("POST", "/v1/queues", ["fields in their order"], 400, "ERR"),
        ("POST", "/v1/queues/small/purge", {"older_than_ms": 1000}, 400, "ERR"),
        ("DELETE", "/v1/queues/small", {"if_empty": True}, 400, "ERR"),
        ("GET", "/v1/queues/small/messages?peek=2", None, 400, "ERR"),
        # A browser that is told 401 asks for another account.
        ("POST", "/v1/queues/strict/messages", {"body": "x", "to": "nobody"}, 404, "NOACCOUNT"),
        ("GET", "/v2", None, 404, "ERR"),
        ("PUT", "/v1/queues/small", None, 405, "ERR"),
        ("GET", "/v1/queues/%ff", None, 400, "ERR"),
        ("GET", "/v1/queues?sort=size", None, 400, "ERR"),
        ("GET", "/v1/queues/small?peek=1", None, 400, "ERR"),
        ("GET", "/v1/status?last=1", None, 400, "ERR"),
        ("GET", "/v1/readable?account=bob", None, 400, "ERR"),
        ("GET", "/v1/windows?last=all", None, 400, "ERR"),
        ("DELETE", "/v1/clients/me", None, 400, "ERR"),
        ("POST", "/v1/queues/small/messages", {"body": "x" * 500_000}, 413, "TOOBIG"),
    ]
    for method, path, body, status, word in cases:
        answer = ask(web, method, path, body)
        assert answer[0] == status, (path, body, answer)
        assert answer[1]["error"] == word, (path, body, answer)
        assert answer[1]["message"], (path, body, answer)
    assert ask(web, "POST", "/v1/queues/small/messages", {"body": "x"})[0] == 201
    assert ask(web, "POST", "/v1/queues/small/messages", {"body": "x"})[0] == 507


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("ack", {"id": -1}, "by its id, a whole number, or by its receipt, a text"),
        ("ack", {"ids": [1, None]}, "by its id, a whole number, or by its receipt, a text"),
        ("nack", {"id": {}}, "by its id, a whole number, or by its receipt, a text"),
        ("ack", {"ids": []}, "nothing to acknowledge: give ids"),
        ("ack", None, "nothing to acknowledge: give ids"),
        ("extend", {"id": 1, "lease_ms": -5}, "`-5`, expected a whole number from 0 on"),
        ("pop", {"count": "many"}, "expected a whole number from 0 on"),
        ("messages?count=many", None, "count: expected a whole number from 0 on"),
        ("messages?count=0", None, "count: expected a whole number from 1 on"),
        ("messages?count=0&from=default", None, "count: expected a whole number from 1 on"),
        ("messages?count=0&peek=1", None, "count: expected a whole number from 1 on"),
    ],
)
def test_what_is_wrong_with_a_request_is_said_in_words(web: Tier, path: str, body: Json, says: str) -> None:
    """Of who asks, and not in those of whoever wrote the program."""
    ask(web, "POST", "/v1/queues", {"name": "q"})
    ask(web, "POST", "/v1/queues/q/messages", {"body": "x"})
    status, answer = ask(web, "GET" if "?" in path else "POST", f"/v1/queues/q/{path}", body)
    assert status == 400
    assert says in answer["message"]
    for jargon in ("u64", "untagged", "deserialize", "digit found"):
        assert jargon not in answer["message"]


def said(web: Tier, *lines: str) -> bytes:
    """The first line that is answered to these of a request, whose body does not follow."""
    with socket.create_connection(("127.0.0.1", web.http_port), timeout=60) as asking:
        asking.sendall("".join(f"{line}\r\n" for line in lines).encode())
        return asking.makefile("rb").readline()


def test_dead_letters_that_are_none_are_told_in_words(web: Tier) -> None:
    """What is to stand there, and not what a structure of the program is called."""
    status, answer = ask(web, "POST", "/v1/queues", {"name": "q", "deadletter": "failed"})
    assert status == 400
    assert answer["message"].startswith(
        'deadletter: invalid type: string "failed", expected an object with queue and after'
    )


def test_a_request_that_names_two_hosts_is_refused(web: Tier) -> None:
    """A proxy may have gone by one of them, and the server by the other."""
    for other in ("localhost", "example.org"):
        heard = said(web, "GET /v1/queues HTTP/1.1", "Host: localhost", f"Host: {other}", "")
        assert heard.startswith(b"HTTP/1.1 400 ")


def test_a_body_in_chunks_may_be_none(web: Tier) -> None:
    """As one of no bytes is none: a client that streams what it has may have nothing."""
    ask(web, "POST", "/v1/queues", {"name": "q"})
    head = ("POST /v1/queues/q/pop HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked")
    assert said(web, *head, "", "0", "").startswith(b"HTTP/1.1 200 ")
    chunk = ("", "b", '{"count":2}', "0", "")
    assert said(web, *head, "Content-Type: application/json", *chunk).startswith(b"HTTP/1.1 200 ")
    assert said(web, *head, *chunk).startswith(b"HTTP/1.1 200 "), "a program need not say that it is JSON"
    assert said(web, *head, "Content-Type: text/plain", *chunk).startswith(b"HTTP/1.1 400 ")


def test_who_asks_whether_to_send_too_much_is_told_not_to(web: Tier) -> None:
    """`Expect: 100-continue` is there so that a body which is refused need not be sent."""
    ask(web, "POST", "/v1/queues", {"name": "q"})
    head = ("POST /v1/queues/q/messages HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    expecting = ("Expect: 100-continue", "")
    assert said(web, *head, "Content-Length: 90000000", *expecting).startswith(b"HTTP/1.1 413 ")
    assert said(web, *head, "Content-Length: 90000000", "").startswith(b"HTTP/1.1 413 ")
    assert said(web, *head, "Content-Length: 12", *expecting).startswith(b"HTTP/1.1 100 ")


def test_a_queue_is_named_as_over_resp(web: Tier) -> None:
    """A dash stands for no name: the queue is named by its id."""
    assert ask(web, "POST", "/v1/queues", {}) == (201, {"id": 1, "name": "1"})
    assert ask(web, "POST", "/v1/queues", {"name": "-"}) == (201, {"id": 2, "name": "2"})
    assert ask(web, "POST", "/v1/queues", {"name": "*"})[0] == 400
    assert ask(web, "GET", "/v1/queues/2")[1]["name"] == "2"


def test_yes_and_no_are_also_written_as_a_queue_shows_them(web: Tier) -> None:
    """What describes a queue makes another one like it."""
    made = {"name": "first", "strict": True, "forbidself": 0}
    assert ask(web, "POST", "/v1/queues", made)[0] == 201
    _, shown = ask(web, "GET", "/v1/queues/first")
    assert (shown["strict"], shown["forbidself"]) == (1, 0)
    again = {
        name: shown[name] for name in ("maxmsgs", "maxbytes", "ttl_ms", "deadletter", "forbidself", "strict")
    }
    assert ask(web, "POST", "/v1/queues", {"name": "second", **again})[0] == 201
    _, second = ask(web, "GET", "/v1/queues/second")
    assert (second["strict"], second["forbidself"]) == (1, 0)
    assert ask(web, "POST", "/v1/queues/second/pop", {"not_own": 1, "broadcast": 0})[0] == 200
    for none in ({"strict": False}, {"strict": None}, {"forbidself": None}, {"maxmsgs": None}):
        assert ask(web, "POST", "/v1/queues", {"name": "second", "strict": True, "maxmsgs": 5})[0] == 201
        assert ask(web, "POST", "/v1/queues", {"name": "second"})[0] == 201
        assert ask(web, "GET", "/v1/queues/second")[1]["maxmsgs"] == 5, "nothing was said of options"
        assert ask(web, "POST", "/v1/queues", {"name": "second", **none})[0] == 201
        _, second = ask(web, "GET", "/v1/queues/second")
        assert (second["strict"], second["maxmsgs"]) == (0, None)
    wrong: list[object] = [2, -1, "true", []]
    for neither in wrong:
        status, answer = ask(web, "POST", "/v1/queues", {"name": "third", "strict": neither})
        assert (status, answer["error"]) == (400, "ERR"), neither
        assert "true, false, 1, 0 or null" in answer["message"], answer


def test_a_header_that_is_no_text_is_not_taken_for_another(web: Tier) -> None:
    """Those stand in an object of their own, in base64."""
    client = redis.Redis(port=web.port)
    client.execute_command("QCREATE", "q")
    headers = ("HEADER", "b", b"\xff\x00", "HEADER", "b_base64", "mine", "HEADER", "long", "x" * 65_536)
    client.execute_command("SEND", "q", "x", *headers)
    _, seen = ask(web, "GET", "/v1/queues/q/messages?peek=1")
    (one,) = seen["messages"]
    assert one["headers"] == {"b_base64": "mine", "long": "x" * 65_536}
    assert one["headers_base64"] == {"b": base64.b64encode(b"\xff\x00").decode()}
    too_long = {"body": "x", "headers": {"long": "x" * 65_537}}
    assert ask(web, "POST", "/v1/queues/q/messages", too_long)[0] == 413


def test_headers_of_one_name_are_all_kept(web: Tier) -> None:
    """One that occurs more than once has a list of values, in their order; it may also stand there twice."""
    client = redis.Redis(port=web.port)
    client.execute_command("QCREATE", "q")
    client.execute_command("SEND", "q", "x", *("HEADER", "a", "1", "HEADER", "b", "2", "HEADER", "a", "3"))
    given = {"a": ["1", "3"], "b": "2"}
    assert ask(web, "POST", "/v1/queues/q/messages", {"body": "x", "headers": given})[0] == 201
    twice = '{"body": "x", "headers": {"a": "1", "b": "2", "a": "3"}}'
    with closing(http.client.HTTPConnection("127.0.0.1", web.http_port, timeout=60)) as connection:
        connection.request("POST", "/v1/queues/q/messages", twice, {"Content-Type": "application/json"})
        assert connection.getresponse().status == 201
    _, seen = ask(web, "GET", "/v1/queues/q/messages")
    assert [one["headers"] for one in seen["messages"]] == [given, given, given]
    for wrong, words in (({"a": 1}, "a text, or a list of texts"), ({"a": ["x"] * 10_000}, "at most 54")):
        refused, answer = ask(web, "POST", "/v1/queues/q/messages", {"body": "x", "headers": wrong})
        assert (refused, answer["error"]) == (400, "ERR"), answer
        assert words in answer["message"], answer


def test_null_is_as_good_as_no_field(web: Tier) -> None:
    """Whoever writes optional fields in any case writes null."""
    ask(web, "POST", "/v1/queues", {"name": "q"})
    optional = ("to", "delay_ms", "ttl_ms", "priority", "dedup", "headers", "headers_base64")
    nothing = dict.fromkeys(("body_base64", "bodies", *optional))
    assert ask(web, "POST", "/v1/queues/q/messages", {"body": "x", **nothing}) == (201, {"id": 1})
    ask(web, "POST", "/v1/queues/q/pop", {"lease_ms": 60000, "count": None, "from": None})
    assert ask(web, "POST", "/v1/queues/q/ack", {"ids": None, "id": 1}) == (200, {"acknowledged": 1})


def test_what_was_read_can_be_sent(web: Tier) -> None:
    """Headers that are no texts too, beside texts of the same name."""
    client = redis.Redis(port=web.port)
    client.execute_command("QCREATE", "q")
    headers = (("a", b"\xff"), ("a", "text"), ("a", b"\xfe\x00"), ("b", b"\x80"))
    words = [word for name, value in headers for word in ("HEADER", name, value)]
    client.execute_command("SEND", "q", b"\xff", *words)
    path = "/v1/queues/q/messages"
    (first,) = ask(web, "GET", path)[1]["messages"]
    given = {name: first[name] for name in ("body_base64", "headers", "headers_base64")}
    assert given["headers_base64"] == {"a": ["/w==", "/gA="], "b": "gA=="}
    assert ask(web, "POST", path, given)[0] == 201
    second = ask(web, "GET", path)[1]["messages"][1]
    assert {name: second[name] for name in given} == given
    refused, answer = ask(web, "POST", path, {"body": "x", "headers_base64": {"a": "no base64"}})
    assert (refused, answer["error"]) == (400, "ERR")
    assert answer["message"].startswith("headers_base64: ")
    assert ask(web, "POST", path, {"bodies": ["x"], "headers_base64": {"a": "gA=="}})[0] == 400


def test_an_answer_that_is_lost_inside_leaves_open_what_happened(web: Tier) -> None:
    """BUSY would say that nothing did."""
    client = redis.Redis(port=web.port, protocol=3, decode_responses=True)
    client.execute_command("QCREATE", "orders")
    answers: list[tuple[int, Json]] = []
    pop = ("POST", "/v1/queues/orders/pop", {"block_ms": 60_000})
    waiting = threading.Thread(target=lambda: answers.append(ask(web, *pop)))
    waiting.start()
    until(lambda: are_waiting(web, 1))
    (inside,) = [one["id"] for one in client.client_list() if one["name"] == "http"]
    client.execute_command("CLIENT", "KILL", "ID", inside)
    waiting.join()
    ((status, answer),) = answers
    assert (status, answer["error"]) == (503, "STORE")


def test_who_is_lost_is_told_what_there_is(web: Tier) -> None:
    """By words and headers alone: who has a package has no pages."""
    assert "/v1/" in ask(web, "GET", "/v2")[1]["message"]
    with closing(http.client.HTTPConnection("127.0.0.1", web.http_port, timeout=120)) as connection:
        connection.request("PUT", "/v1/queues/q")
        answer = connection.getresponse()
        assert answer.status == 405
        assert {"GET", "DELETE"} <= set(answer.headers["Allow"].split(","))
        assert "Allow" in json.loads(answer.read())["message"]


def test_closed_accounts_are_closed_here_too(start: Callable[..., Tier], accounts_file: Path) -> None:
    """Health is for anybody, everything else for those who can say who they are."""
    tier = start(*HTTP, "--accounts", str(accounts_file))
    for path in ("/healthz", "/readyz", "/", "/console/app.js"):
        assert ask(tier, "GET", path)[0] == 200, path
    for method, path, status in (
        ("GET", "/v2", 404),
        ("GET", "/console/none.js", 404),
        ("PUT", "/metrics", 405),
    ):
        assert ask(tier, method, path)[0] == status, path
    for path in ("/v1/queues", "/v1/clients", "/v1/windows", "/metrics", "/v1/accounts"):
        assert ask(tier, "GET", path)[0] == 401, path
        assert ask(tier, "GET", path, headers=basic("alice", "wrong"))[0] == 401, path
        assert ask(tier, "GET", path, headers=basic("alice", "wonderland"))[0] == 200, path
        assert ask(tier, "GET", path, headers={"Authorization": "Bearer alice:wonderland"})[0] == 200, path
    for no_name in ("", "*", "-", "x" * 256):
        status, answer = ask(tier, "GET", "/v1/queues", headers=basic(no_name, "x"))
        assert (status, answer["error"]) == (401, "NOACCOUNT"), no_name
    assert ask(tier, "POST", "/v1/queues", {"name": "q"}, basic("alice", "wonderland"))[0] == 201
    sent = ask(tier, "POST", "/v1/queues/q/messages", {"body": "x"}, basic("alice", "wonderland"))
    assert sent[0] == 201
    _, seen = ask(tier, "GET", "/v1/queues/q/messages?peek=1", headers=basic("alice", "wonderland"))
    assert seen["messages"][0]["from"] == "alice"
    assert "wonderland" not in tier.log()


def test_pages_of_others_change_nothing(web: Tier) -> None:
    """Neither by a form of theirs, nor by a name of theirs for this machine."""
    new = {"name": "theirs"}
    assert ask(web, "POST", "/v1/queues", new, {"Origin": "https://evil.example"})[0] == 403
    assert ask(web, "POST", "/v1/queues", new, {"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert ask(web, "GET", "/v1/queues", headers={"Host": "evil.example"})[0] == 403
    assert ask(web, "GET", "/v1/queues")[1]["total"] == 0
    assert ask(web, "POST", "/v1/queues", new, {"Origin": f"http://127.0.0.1:{web.http_port}"})[0] == 201


@pytest.mark.parametrize("behind", [b"", b"\r\n", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_pop_that_is_not_waited_for_takes_nothing(web: Tier, behind: bytes) -> None:
    """Who hangs up while a pop waits leaves the next message to others, whatever was sent behind it."""
    ask(web, "POST", "/v1/queues", {"name": "q"})
    body = b'{"block_ms": 60000}'
    head = "POST /v1/queues/q/pop HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection = socket.create_connection(("127.0.0.1", web.http_port), 20)
    connection.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body + behind)
    until(lambda: are_waiting(web, 1))
    connection.close()
    until(lambda: are_waiting(web, 0))
    assert ask(web, "POST", "/v1/queues/q/messages", {"body": "x"})[0] == 201
    assert len(ask(web, "POST", "/v1/queues/q/pop", {"block_ms": 1000})[1]["messages"]) == 1


def test_who_has_asked_and_sends_no_more_is_answered(web: Tier) -> None:
    """A client may close its own side when it has asked; what a pop takes comes to it then."""
    ask(web, "POST", "/v1/queues", {"name": "q"})
    head = "POST /v1/queues/q/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for path, body, status in (("messages", b'{"body": "x"}', b"201"), ("pop", b"{}", b"200")) * 20:
        with socket.create_connection(("127.0.0.1", web.http_port), 20) as connection:
            connection.sendall((head % path).encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.split(b" ", 2)[1] == status, answer
        assert path == "messages" or b'"body":"x"' in answer, answer


def test_a_tier_that_stops_is_not_ready(start: Callable[..., Tier]) -> None:
    """Whoever sends it requests learns so while it still writes its last answers."""
    tier = start(*HTTP, "--drain", "20s")
    with socket.create_connection(("127.0.0.1", tier.port)) as slow:
        slow.setblocking(False)
        echo = b"*2\r\n$4\r\nECHO\r\n$60000\r\n" + b"x" * 60000 + b"\r\n"
        with suppress(BlockingIOError):
            while True:
                slow.send(echo)
        assert ask(tier, "GET", "/readyz")[0] == 200
        with ThreadPoolExecutor(1) as other:
            stopped = other.submit(tier.stop)
            while (answer := ask(tier, "GET", "/readyz")) == (200, "ready\n"):
                pass
            assert answer == (503, "the server is stopping\n")
            slow.close()
            assert stopped.result() == 0


def test_each_message_reaches_one_of_many(web: Tier) -> None:
    """Exactly once, however many ask at once."""
    ask(web, "POST", "/v1/queues", {"name": "q"})
    ask(web, "POST", "/v1/queues/q/messages", {"bodies": [str(n) for n in range(300)]})
    got: list[str] = []

    def pop() -> None:
        while messages := ask(web, "POST", "/v1/queues/q/pop")[1]["messages"]:
            got.append(messages[0]["body"])

    threads = [threading.Thread(target=pop) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got, key=int) == [str(n) for n in range(300)]


def test_a_client_can_be_closed(web: Tier) -> None:
    """The console's button."""
    client = redis.Redis(port=web.port, client_name="unwanted")
    client.ping()
    _, clients = ask(web, "GET", "/v1/clients")
    (unwanted,) = [c["id"] for c in clients if c["name"] == "unwanted"]
    assert ask(web, "DELETE", f"/v1/clients/{unwanted}") == (200, {"closed": 1})
    # Its thread is told to, and does so in its own time.
    while unwanted in [c["id"] for c in ask(web, "GET", "/v1/clients")[1]]:
        time.sleep(0.01)
    assert ask(web, "DELETE", f"/v1/clients/{unwanted}") == (200, {"closed": 0})


def test_a_connection_inside_that_was_closed_costs_nobody_an_answer(web: Tier) -> None:
    """It is kept for the next request, and may be closed meanwhile as that of any client."""
    client = redis.Redis(port=web.port)
    client.execute_command("QCREATE", "q")
    for _ in range(5):
        assert ask(web, "GET", "/v1/queues/q")[0] == 200
        inside = [listed["id"] for listed in client.client_list() if listed["name"] == "http"]
        assert inside
        for number in inside:
            client.client_kill_filter(_id=number)
        # Its thread is told to, and does so in its own time.
        while any(listed["name"] == "http" for listed in client.client_list()):
            time.sleep(0.01)


def test_what_changes_something_takes_no_options_behind_a_question_mark(web: Tier) -> None:
    """They would be passed over: a pop that should lend would take for good."""
    ask(web, "POST", "/v1/queues", {"name": "q"})
    ask(web, "POST", "/v1/queues/q/messages", {"body": "one"})
    for path in ("/pop", "/redrive", "/purge", "/ack", ""):
        status, answer = ask(web, "POST" if path else "DELETE", f"/v1/queues/q{path}?lease_ms=5000")
        assert (status, "body" in str(answer)) == (400, True), (path, answer)
    assert ask(web, "GET", "/v1/queues/q")[1]["messages"] == 1


def test_the_console_is_there(web: Tier) -> None:
    """The page and every file it asks for, each with its type and a policy that lets nothing else in."""
    with closing(http.client.HTTPConnection("127.0.0.1", web.http_port, timeout=20)) as connection:
        connection.request("GET", "/")
        answer = connection.getresponse()
        page = answer.read().decode()
    assert answer.headers.get_content_type() == "text/html"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "/console/app.js" in page
    assert ask(web, "GET", "/console/app.js")[0] == 200
    assert ask(web, "GET", "/console/../Cargo.toml")[0] == 404
    assert ask(web, "GET", "/v1/status")[1]["ready"] is True


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_pop_over_resp_is_repeated_over_http(web: Tier, protocol: int) -> None:
    """Its answer was a message alone, for it had no COUNT; HTTP lists it."""
    with closing(redis.Redis(port=web.port, protocol=protocol)) as client:
        client.execute_command("QCREATE", "q")
        sent = client.execute_command("SEND", "q", "hello")
        client.execute_command("POP", "QUEUE", "q", "REQID", "k")
    status, again = ask(web, "POST", "/v1/queues/q/pop", {"request_id": "k"})
    assert status == 200
    assert [(message["id"], message["body"]) for message in again["messages"]] == [(sent, "hello")]
