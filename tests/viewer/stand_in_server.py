"""A stand-in for askance's server: it offers the viewer's page and streams one prepared answer."""

import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

from askance.core.safe_text import json_line
from askance.core.trace import AnyEvent
from askance.storage.trace_file import event_record
from askance.viewer.page import viewer_files

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"


class StandInServer:
    """The server. Use it as a context manager.

    Attributes:
        events: The events of the answer.
        error: The message of an error that ends the stream; empty for none.
        key: The key that requests must have; empty for none.
        may_end: Set once more than the first event and a draft may be sent.
        asked: The body of the latest request.
    """

    def __init__(self) -> None:
        self.events: Sequence[AnyEvent] = ()
        self.error, self.key, self.may_end = "", "", Event()
        self.asked: dict[str, object] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"stand_in": self}))
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> "StandInServer":
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.may_end.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    stand_in: StandInServer

    def do_GET(self):
        path = self.path.partition("?")[0]
        status, kind, content = self._models() if path == "/v1/models" else (200, *viewer_files()[path])
        self._send(status, kind, content)

    def do_POST(self):
        self.stand_in.asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._send(200, "text/event-stream")
        first, *others = self.stand_in.events or (None,)
        if first is not None:
            self._event(first)
            self._write('event: trace\ndata: {"type": "draft", "text": "Maybe"}\n\n')
        self.stand_in.may_end.wait(30)
        for event in others:
            self._event(event)
        if self.stand_in.error:
            self._write(f"data: {json.dumps({'error': {'message': self.stand_in.error}})}\r\n\r\n")
        self._write("data: [DONE]\n\n")

    def _models(self):
        if self.stand_in.key and self.headers["Authorization"] != f"Bearer {self.stand_in.key}":
            return 401, "application/json", b'{"error": {"message": "a key is missing"}}'
        names = [{"id": f"askance/{name}"} for name in ("single", "dragin")]
        return 200, "application/json", json.dumps({"data": names}).encode()

    def _event(self, event: AnyEvent) -> None:
        self._write(f"event: trace\ndata: {json_line(event_record(event))}\n\n")

    def _write(self, text: str) -> None:
        try:
            self.wfile.write(text.encode())
        except ConnectionError:
            self.close_connection = True

    def _send(self, status: int, kind: str, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self._write(content.decode())

    def log_message(self, *parts):
        pass
