"""A server of tools that tells its client things without being asked."""
import json, os, sys

open("../started", "a").write("x")


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def log(text):
    say(method="notifications/message", params={"level": "info", "data": text})


def progress(request, done):
    token = request["params"]["_meta"]["progressToken"]
    say(method="notifications/progress", params={"progressToken": token, "progress": done, "total": 2.0})


waiting = []
for line in sys.stdin:
    request = json.loads(line)
    number, method, params = request.get("id"), request["method"], request.get("params", {})
    if method == "initialize":
        log("hello")
        say(id=number, result={"protocolVersion": "2025-06-18", "capabilities": {}})
    elif method == "notifications/initialized":
        say(method="notifications/tools/list_changed")
    elif method == "tools/list":
        say(id=number, result={"tools": [{"name": "add"}, {"name": "flood"}, {"name": "pair"}]})
    elif method == "tools/call" and params["name"] == "add":
        given = params["arguments"]
        progress(request, 0.5)
        log("in %s with %s" % (os.getcwd(), os.environ["SHOP_TOKEN"]))
        progress(request, 1.0)
        say(id=number, result={"content": [], "structuredContent": {"sum": float(given["a"] + given["b"])}})
        log("that was easy")
    elif method == "tools/call" and params["name"] == "flood":
        log("x" * (17 << 20))
        say(id=number, result={"content": []})
    elif method == "tools/call":
        waiting.append(request)
        if len(waiting) == 2:
            log("both are open")
            for one in waiting:
                progress(one, 1)
            # The later one is answered first.
            for one in reversed(waiting):
                say(id=one["id"], result={"content": [], "nth": one["params"]["arguments"]["nth"]})
