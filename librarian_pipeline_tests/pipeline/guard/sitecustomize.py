"""Put on PYTHONPATH of a command under test: refuses every connection that leaves this machine, and notes it in a file."""

import os
import sys
from pathlib import Path
from typing import Any

LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    name = host.decode() if isinstance(host, bytes) else host
    if name and not str(name).startswith(LOOPBACK):
        with Path(os.environ["NETWORK_ATTEMPTS"]).open("a") as file:
            file.write(f"{event} {name}\n")
        raise OSError(f"the network is cut: {name}")


sys.addaudithook(_refuse)
