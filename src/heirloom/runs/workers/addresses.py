"""Addresses of clusters: checked before a library tries to connect, which may take minutes."""

import re
import socket
from typing import Literal

from heirloom.errors import InvalidArgument
from heirloom.validation import shown

TIMEOUT = 5.0  # seconds for a cluster to answer
LARGEST_PORT = 2**16 - 1

# What a client of HTTP/2 sends first; the server answers with a frame of settings.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
SETTINGS = 4  # the type of that frame, its fourth byte
LARGEST_GREETING = 2**24  # a Dask scheduler first sends its greeting, and before that its size


def host_and_port(address: str) -> tuple[str, int] | None:
    """Return the host and the port of an address such as `tcp://HOST:PORT`.

    Returns None if the address does not end with a port. Raises `InvalidArgument` if no machine can
    have this port.
    """
    found = re.fullmatch(r"(?:[a-z]+://)?(\[[^]]*\]|[^:/]*):(-?[0-9]+)/?", address)
    if found is None:
        return None
    host, port = found[1].strip("[]"), int(found[2][:12])
    if not 1 <= port <= LARGEST_PORT:
        raise InvalidArgument(
            f"address is {shown(address)}: expected a port from 1 to {LARGEST_PORT}"
        )
    return host, port


def check_reachable(address: str, protocol: Literal["dask", "grpc"] | None) -> None:
    """Raise `OSError` unless a server of this kind answers at HOST:PORT; other addresses pass.

    A client would wait long for an answer of a server of another kind.

    Args:
        address: the address.
        protocol: what the server speaks; None for anything.
    """
    found = host_and_port(address)
    if found is None:
        return
    try:
        with socket.create_connection(found, timeout=TIMEOUT) as connection:
            if protocol == "grpc":
                connection.sendall(PREFACE)
            answer = connection.recv(8) if protocol else b""
    except TimeoutError:
        raise TimeoutError(f"no answer within {TIMEOUT:g} seconds") from None
    except (UnicodeError, ValueError) as error:  # a name that no machine can have
        raise OSError(str(error)) from None
    is_grpc = len(answer) > 3 and answer[3] == SETTINGS
    is_dask = len(answer) == 8 and int.from_bytes(answer, "little") < LARGEST_GREETING
    if (protocol == "grpc" and not is_grpc) or (protocol == "dask" and not is_dask):
        raise ConnectionError("another program listens there")
