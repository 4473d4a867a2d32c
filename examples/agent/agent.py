"""A small agent: asks a model, calls the tool that it wants, writes a file. Python's own library only."""

import json
import os
import subprocess
import urllib.request

BASE = os.environ["OPENAI_BASE_URL"]
messages = [{"role": "user", "content": "How many words has notes.txt? Use the tool count_words."}]


def ask():
    body = {"model": "small", "temperature": 0, "messages": messages}
    request = urllib.request.Request(
        BASE + "/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]


def count_words(file):
    # Run in this way the tool is recorded, and a replay answers it from the recording.
    command = ["runwright", "snapshot", "tool", "count_words", "--", "wc", "-w", file]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


answer = ask()
while answer.get("tool_calls"):
    messages.append(answer)
    for call in answer["tool_calls"]:
        arguments = json.loads(call["function"]["arguments"])
        result = count_words(**arguments)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    answer = ask()
with open("answer.txt", "w") as out:
    out.write(answer["content"] + "\n")
print(answer["content"])
