"""Stands in for a model, so that the example needs no key: wants the tool once, then says what it gave."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = body["messages"][-1]
        if last["role"] == "tool":
            message = {"role": "assistant", "content": "It has %s words." % last["content"].split()[0]}
        else:
            call = {"name": "count_words", "arguments": json.dumps({"file": "notes.txt"})}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call-1", "type": "function", "function": call}],
            }
        answer = json.dumps({"model": "small-1", "choices": [{"index": 0, "message": message}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", 8123), Model).serve_forever()
