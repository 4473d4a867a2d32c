"""A client of a server of tools that waits for what the server tells unasked, and says what came
in which order. One that waits in vain ends with exit code 9."""
import json, os, subprocess, sys, threading, uuid

watchdog = threading.Timer(float(os.environ.get("PATIENCE", "60")), os._exit, [9])
watchdog.daemon = True
watchdog.start()
server = subprocess.Popen(
    [os.environ["PROGRAM"], "snapshot", "mcp", "--", "python3", os.environ["SERVER"]],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
tokens = {}


def send(number, method, params):
    if number is not None:
        # Another one each time.
        token = uuid.uuid4().hex
        tokens[token] = "of %s" % number
        params = {**params, "_meta": {"progressToken": token}}
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    if number is not None:
        message["id"] = number
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()


def heard():
    line = server.stdout.readline()
    if not line:
        sys.exit(8)
    for token, meant in tokens.items():
        line = line.replace(token, meant)
    return line


def until(word):
    """Prints all lines up to the one that has the word."""
    while True:
        line = heard()
        print(line, end="", flush=True)
        if word in line:
            return


def call(number, name, **arguments):
    send(number, "tools/call", {"name": name, "arguments": arguments})


what = sys.argv[1]
send(0, "initialize", {"protocolVersion": "2025-06-18"})
until('"id":0')
if what == "flood":
    call(1, "flood")
    print("all of it came:", len(heard()) > 17 << 20)
    until('"id":1')
if what == "all":
    send(None, "notifications/initialized", {})
    until("list_changed")
    send(1, "tools/list", {})
    until('"id":1')
    call(2, "add", a=3, b=4)
    until('"id":2')
    until("that was easy")
    call(3, "pair", nth=3)
    call(4, "pair", nth=4)
    came = [json.loads(heard()) for _ in range(5)]
    place = {}
    for at, message in enumerate(came):
        params = message.get("params", {})
        place[str(message.get("id") or params.get("progressToken") or params["data"])] = at
    first = min(place["3"], place["4"])
    print("all of both came:", sorted(place))
    print("in time:", place["both are open"] < first, place["of 3"] < place["3"], place["of 4"] < place["4"])
server.stdin.close()
server.wait()
