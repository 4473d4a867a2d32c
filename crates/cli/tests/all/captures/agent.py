"""An agent of the tests' own: does what its script says, a line to a step.

Each line is JSON: an operation and its arguments. It asks models at the address that its
environment has, and runs tools through the program whose path stands in PROGRAM.
"""

import json
import os
import subprocess
import sys
import urllib.request

messages = []
texts = []


def ask(step):
    base = os.environ["OPENAI_BASE_URL"]
    messages.append({"role": "user", "content": step["ask"]})
    body = {"model": "tiny", "messages": messages, **step.get("with", {})}
    request = urllib.request.Request(
        base + "/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer " + os.environ.get("OPENAI_API_KEY", "none")},
    )
    try:
        with urllib.request.urlopen(request) as answer:
            message = json.load(answer)["choices"][0]["message"]
    except urllib.error.HTTPError as refused:
        print("refused:", refused.read().decode(), file=sys.stderr)
        sys.exit(9)
    messages.append(message)
    if message.get("content"):
        texts.append(message["content"])
    for call in message.get("tool_calls") or []:
        arguments = json.loads(call["function"]["arguments"])
        result = tool(call["function"]["name"], arguments["argv"], step.get("native"))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def tool(name, argv, native=False):
    command = argv if native else [os.environ["PROGRAM"], "snapshot", "tool", name, "--", *argv]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    return ran.stdout.decode()


for line in open(sys.argv[1]):
    step = json.loads(line)
    if "ask" in step:
        ask(step)
    elif "tool" in step:
        print(tool(step["tool"], step["argv"], step.get("native")), end="")
    elif "write" in step:
        os.makedirs(os.path.dirname(step["write"]) or ".", exist_ok=True)
        with open(step["write"], "w") as out:
            out.write(step["text"])
    elif "rename" in step:
        os.rename(step["rename"], step["to"])
    elif "delete" in step:
        os.remove(step["delete"])
    elif "print" in step:
        print(step["print"])
        print(step["print"], file=sys.stderr)
    elif "where" in step:
        print(os.getcwd())
        messages.append({"role": "system", "content": "You work in " + os.getcwd()})
    elif "signal" in step:
        with open(step["signal"], "w") as gate:
            gate.write("open\n")
    elif "wait" in step:
        open(step["wait"]).readline()
    elif "exit" in step:
        sys.exit(step["exit"])
