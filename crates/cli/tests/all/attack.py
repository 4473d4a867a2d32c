"""What a tenant's program tries: prints, for each attempt by name, whether it was denied."""

import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys

data, project, neighbour, server, port, program = sys.argv[1:7]
server, port = int(server), int(port)
libc = ctypes.CDLL(None, use_errno=True)
store = os.path.join(data, "store.db")
keyring = os.path.join(data, "keyring.json")


def called(result):
    """The result of a call of the C library, as Python's own calls give it."""
    if result == -1:
        raise OSError(ctypes.get_errno(), "denied")
    return result


def linked():
    os.symlink(keyring, "link")
    open("link").read()


def connected(family, kind, to):
    with socket.socket(family, kind) as made:
        made.connect(to)


def duplicated():
    try:
        for _ in range(2000):
            os.dup(0)
    finally:
        os.closerange(3, 3000)


def minted():
    command = [program, "keys", "create", "--data", data, "--tenant", "beta"]
    subprocess.run(command, check=True, capture_output=True)


attempts = {
    "read the store": lambda: open(store, "rb").read(1),
    "read the keyring": lambda: open(keyring).read(),
    "read a secret": lambda: open(os.path.join(data, "secrets", "planted")).read(),
    "list the data folder": lambda: os.listdir(data),
    "list the tenants": lambda: os.listdir(os.path.join(data, "tenants")),
    "read another tenant's file": lambda: open(neighbour).read(),
    "read the project": lambda: open(os.path.join(project, "flows", "three.json")).read(),
    "list the project": lambda: os.listdir(project),
    "write beside the store": lambda: open(os.path.join(data, "new"), "w"),
    "remove the store": lambda: os.unlink(store),
    "move the store": lambda: os.rename(store, "mine"),
    "link the store": lambda: os.link(store, "mine"),
    "follow a link to the keyring": linked,
    "close the store to its server": lambda: os.chmod(store, 0),
    "read the server's environment": lambda: open(f"/proc/{server}/environ").read(),
    "read the server's memory": lambda: open(f"/proc/{server}/mem", "rb"),
    "read the server's command line": lambda: open(f"/proc/{server}/cmdline").read(),
    "read the server's files": lambda: os.listdir(f"/proc/{server}/fd"),
    "read its own supervisor's memory": lambda: open(f"/proc/{os.getppid()}/mem", "rb"),
    "list processes": lambda: os.listdir("/proc"),
    "trace the server": lambda: called(libc.ptrace(16, server, 0, 0)),
    "trace its supervisor": lambda: called(libc.ptrace(16, os.getppid(), 0, 0)),
    "signal the server": lambda: os.kill(server, signal.SIGCONT),
    "signal its supervisor": lambda: os.kill(os.getppid(), signal.SIGCONT),
    "limit the server": lambda: resource.prlimit(server, resource.RLIMIT_CORE, (0, 0)),
    "slow the server down": lambda: os.setpriority(os.PRIO_PROCESS, server, 19),
    "connect to the server": lambda: connected(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)),
    "send a datagram": lambda: connected(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port)),
    "connect to a Unix socket": lambda: connected(socket.AF_UNIX, socket.SOCK_STREAM, "\0abstract"),
    "make a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "make a user namespace": lambda: called(libc.unshare(0x10000000)),
    "mount": lambda: called(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    "make a ring": lambda: called(libc.syscall(425, 8, ctypes.create_string_buffer(256))),
    "make itself a key": minted,
    "read the passwords": lambda: open("/etc/shadow").read(),
    "read /root": lambda: os.listdir("/root"),
    "read /tmp": lambda: os.listdir("/tmp"),
    "write to the system": lambda: open("/usr/lib/planted", "w"),
    "write a huge file": lambda: open("huge", "w").truncate(2 << 30),
    "take a lot of memory": lambda: bytearray(3 << 30),
    "open many files": duplicated,
}

told = {}
for name, attempt in attempts.items():
    try:
        attempt()
        told[name] = "DONE"
    except (OSError, MemoryError):
        told[name] = "denied"

# What it may do.
with open("own.txt", "w") as own:
    own.write("mine")
json.dump({"told": told, "environment": dict(os.environ), "cwd": os.getcwd()}, sys.stdout)
