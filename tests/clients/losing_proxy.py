"""A relay between a client and a server that loses an answer on demand, as a broken connection does."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class LosingProxy:
    """Relays connections to a port; told to, it drops the next answer and cuts that connection."""

    def __init__(self, port: int) -> None:
        """Start to relay."""
        self._server_port = port
        self._lose = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._clients: list[socket.socket] = []
        self._threads[0].start()
        self.port: int = self._listener.getsockname()[1]
        self.lost = 0

    def __enter__(self) -> Self:
        """Use it in a `with`."""
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Accept no more connections, and end those there are."""
        for end in (self._listener, *self._clients):
            shut(end)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def lose_next_answer(self) -> None:
        """The server will do the next request, and the client will not hear of it."""
        self._lose.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # the test is over
            self._clients.append(client)
            connection = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(connection)
            connection.start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server_port)) as server:
            requests = threading.Thread(target=self._relay, args=(client, server, False))
            requests.start()
            self._relay(server, client, answers=True)
            requests.join()

    def _relay(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):  # one side is gone: so is the other
            while data := source.recv(65536):
                if answers and self._lose.is_set():
                    self._lose.clear()
                    self.lost += 1
                    break
                sink.sendall(data)
        shut(source)
        shut(sink)


def shut(end: socket.socket) -> None:
    """Wake up whoever waits for this socket, with its end."""
    with contextlib.suppress(OSError):  # it was shut or closed already
        end.shutdown(socket.SHUT_RDWR)
