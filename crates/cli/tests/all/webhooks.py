"""Registers a webhook with the official OpenWOP client and verifies what is delivered."""

import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue

from openwop_client import (
    CreateRunRequest,
    OpenwopClient,
    RegisterWebhookRequest,
    RotateWebhookSecretRequest,
    WopError,
    read_webhook_headers,
    verify_webhook_signature,
)

url, key = sys.argv[1:]
client = OpenwopClient(url, key)
arrivals = Queue()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        arrivals.put((dict(self.headers), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/hook"

order = RegisterWebhookRequest(url=address, events=["run.completed"])
webhook = client.webhooks_register(order, idempotency_key="hook-1")
assert webhook == client.webhooks_register(order, idempotency_key="hook-1")
assert webhook.url == address and webhook.eventTypes == ["run.completed"], webhook

run = client.runs_create(CreateRunRequest(workflowId="three"))
headers, body = arrivals.get(timeout=60)
signature, timestamp, family = read_webhook_headers(headers)
assert family == "openwop", headers
outcome = verify_webhook_signature(webhook.secret, signature, timestamp, body)
assert outcome.valid, outcome
assert not verify_webhook_signature("x" * 64, signature, timestamp, body).valid
assert not verify_webhook_signature(webhook.secret, signature, timestamp, body + b" ").valid
assert run.runId.encode() in body


def refused(status, code, call):
    try:
        call()
    except WopError as error:
        assert error.status == status, (error.status, error.raw_text)
        assert error.envelope is not None and error.envelope.error == code, error.raw_text
        return
    raise AssertionError(f"not refused: {code}")


new = RotateWebhookSecretRequest(secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
hook = webhook.subscriptionId
# A webhook that takes one signature at a time cannot overlap.
refused(400, "validation_error", lambda: client.webhooks_rotate_secret(hook, "acme", new))
refused(403, "workspace_membership_required", lambda: client.webhooks_unregister(hook, "umbrella"))
refused(404, "subscription_not_found", lambda: client.webhooks_unregister("wh_none", "acme"))
client.webhooks_unregister(hook, "acme")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    refused(404, "subscription_not_found", lambda: client.webhooks_unregister(hook))

print("delivered")
