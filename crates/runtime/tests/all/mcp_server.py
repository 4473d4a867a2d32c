"""A server of tools: on its standard streams, or over HTTP where it is told so."""

import os
import socket
import sys

import anyio
import uvicorn
from mcp.server import MCPServer

server = MCPServer("bench", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool()
def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


@server.tool()
def variable(name: str) -> str:
    """Gives a variable of the environment."""
    return os.environ.get(name, "")


@server.tool()
async def wait(marks: str) -> str:
    """Waits until it is cancelled, and leaves marks of that in a folder."""
    with open(os.path.join(marks, "begun"), "w") as mark:
        mark.write("begun")
    try:
        await anyio.sleep_forever()
    except BaseException:
        with open(os.path.join(marks, "cancelled"), "w") as mark:
            mark.write("cancelled")
        raise


if sys.argv[1:] == ["http"]:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listening])
else:
    server.run("stdio")
