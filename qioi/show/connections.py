"""One thread that answers many clients, none of which can keep the others waiting.

A question is answered once it is there as a whole, and an answer is sent as fast as its client reads it; silent clients
and slow ones cost a place in a table. The daemon may have real-time priority and everybody on the host may ask, so a
service rests after what it does: it takes a tenth of one CPU at most for cheap questions, and a tenth for all others.
"""

from __future__ import annotations

import logging
import math
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import cast

log = logging.getLogger("qioi")

#: Seconds that a client may take to ask, and to read its answer.
LONGEST = 5.0
#: Seconds that :meth:`Service.close` waits for an answer that is being made.
ENDING = 2.0
#: After its work a service pauses for this many times the CPU time that it took.
REST = 9.0
#: Clients at once. One more takes the place of the one that came first.
CONNECTIONS = 64
#: Bytes of a question, and bytes read at once.
QUESTION, CHUNK = 16_384, 4096

#: What makes the bytes of an answer out of those of a question.
Answer = Callable[[bytes], bytes]


class Connection:
    """One client: its question as far as it is there, then what is left of its answer."""

    def __init__(self, client: socket.socket) -> None:
        client.setblocking(False)
        self.client = client
        self.deadline = time.monotonic() + LONGEST
        self.question = b""
        self.answer: memoryview | None = None

    def receive(self) -> bool | None:
        """Read on. Say whether the question is there as a whole; ``None``: the client is to be hung up on."""
        try:
            piece = self.client.recv(CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            return None
        self.question += piece
        if not piece:  # it says no more, and may have said it all
            return True if self.question else None
        if len(self.question) > QUESTION:
            return None
        return b"\n\r\n" in self.question or b"\n\n" in self.question

    @property
    def has_left(self) -> bool:
        """Whether the client reads no answer: an order whose client gave up was said not to be taken."""
        end = select.poll()
        end.register(self.client, 0)
        return bool(end.poll(0))

    def begin(self, answer: bytes) -> None:
        """Begin to send an answer."""
        self.answer = memoryview(answer)
        self.deadline = time.monotonic() + LONGEST

    def send(self) -> bool:
        """Send what the client has room for; say whether there is more to send."""
        assert self.answer is not None
        try:
            self.answer = self.answer[self.client.send(self.answer) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return len(self.answer) > 0

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)
        self.client.close()


class Service:
    """Answers on one listening socket, in a thread of its own, from construction until :meth:`close`.

    ``is_cheap`` says of a question whether it is answered also while the service rests from others.
    """

    def __init__(self, listener: socket.socket, name: str, answer: Answer, is_cheap: Callable[[bytes], bool]) -> None:
        self.address = listener.getsockname()
        self._listener = listener
        self._answer = answer
        self._is_cheap = is_cheap
        self._closed = False
        self._connections: dict[int, Connection] = {}  # by descriptor, in the order in which they came
        self._waiting: list[Connection] = []  # their questions are there, and cost something
        self._rested = 0.0
        self._events = select.poll()  # not select(), which takes no descriptor above 1,023
        self._stop, self._stopper = socket.socketpair()
        listener.setblocking(False)
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        #: The kernel's number of the thread that answers.
        self.thread = cast("int", self._thread.native_id)

    def close(self) -> None:
        """Stop answering, and free the address. An answer that is being made is finished first."""
        self._closed = True
        self._stopper.close()
        self._thread.join(ENDING)

    def _serve(self) -> None:
        """Answer until closed.

        The sockets are closed here alone: while this thread waits for them, their numbers must stay theirs.
        """
        end = select.poll()
        end.register(self._stop, select.POLLIN)
        for one in (self._listener, self._stop):
            self._events.register(one, select.POLLIN)
        try:
            while not self._closed:
                events = self._events.poll(self._pause())
                before = time.thread_time()
                for descriptor, _ in events:
                    self._attend(descriptor)
                self._hang_up_on_the_late()
                end.poll(1000 * REST * (time.thread_time() - before))
                if not self._closed and self._waiting and time.monotonic() >= self._rested:
                    self._reply_to_next()
        finally:
            for connection in (*self._connections.values(), *self._waiting):
                connection.close()
            self._listener.close()
            self._stop.close()

    def _pause(self) -> float | None:
        """Give the milliseconds until something is due without an event; ``None``: nothing is."""
        due = min((one.deadline for one in self._connections.values()), default=math.inf)
        if self._waiting:
            due = min(due, self._rested)
        return None if math.isinf(due) else max(0.0, 1000 * (due - time.monotonic())) + 1

    def _attend(self, descriptor: int) -> None:
        """Do what one socket is ready for."""
        if descriptor == self._listener.fileno():
            self._accept()
        elif descriptor in self._connections:
            connection = self._connections[descriptor]
            if connection.answer is not None:
                self._send(connection)
            elif (whole := connection.receive()) is None:
                self._drop(connection)
            elif whole:
                self._take(connection)

    def _accept(self) -> None:
        """Accept one client. Those that also wait are let in after the rest: others may connect faster than that."""
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:  # this process may open no more files
            log.debug("a client could not be let in", exc_info=True)
            self._make_room()
            return
        descriptor = client.fileno()
        self._connections[descriptor] = Connection(client)
        self._events.register(client, select.POLLIN)
        if len(self._connections) + len(self._waiting) > CONNECTIONS:
            self._make_room()
        self._attend(descriptor)  # most ask at once

    def _make_room(self) -> None:
        """Hang up on the client that came first, or else on the last that waits for its turn."""
        if len(self._connections) > 1:
            self._drop(next(iter(self._connections.values())))
        elif self._waiting:
            self._waiting.pop().close()

    def _take(self, connection: Connection) -> None:
        """Take a whole question: answer it if that costs little, or have it wait for its turn."""
        if self._is_cheap(connection.question):
            self._reply(connection)
        else:
            del self._connections[connection.client.fileno()]
            self._events.unregister(connection.client)
            self._waiting.append(connection)

    def _reply_to_next(self) -> None:
        """Answer the question that has waited for longest, and rest."""
        connection = self._waiting.pop(0)
        self._connections[connection.client.fileno()] = connection
        self._events.register(connection.client, select.POLLOUT)
        before = time.thread_time()
        self._reply(connection)
        self._rested = time.monotonic() + REST * (time.thread_time() - before)

    def _reply(self, connection: Connection) -> None:
        """Make an answer, and begin to send it. A client that has left is given none."""
        if connection.has_left:
            self._drop(connection)
            return
        try:
            answer = self._answer(connection.question)
        except Exception:  # one client must not end the service
            log.debug("a client of the HTTP side", exc_info=True)
            self._drop(connection)
            return
        connection.begin(answer)
        self._send(connection)

    def _send(self, connection: Connection) -> None:
        if connection.send():
            self._events.modify(connection.client, select.POLLOUT)
        else:
            self._drop(connection)

    def _hang_up_on_the_late(self) -> None:
        now = time.monotonic()
        for connection in [one for one in self._connections.values() if one.deadline <= now]:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        del self._connections[connection.client.fileno()]
        self._events.unregister(connection.client)
        connection.close()
