"""Clusters on this machine listen on loopback only, and addresses that do not answer fail early."""

import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

import heirloom as hl
from heirloom.runs.workers import workers
from heirloom.runs.workers.dask import check_reachable

LISTENERS = """
import sys
import psutil
from heirloom.runs.workers import workers

if __name__ == "__main__":
    with workers("dask", jobs=2):
        this = psutil.Process()
        for process in (this, *this.children(recursive=True)):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    print(process.name(), connection.laddr.ip)
"""


@pytest.mark.cluster
def test_cluster_on_this_machine_listens_on_loopback_only(tmp_path):
    script = tmp_path / "listeners.py"
    script.write_text(LISTENERS)
    command = [sys.executable, script]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listeners = [line.rsplit(" ", 1) for line in output.splitlines()]
    assert len(listeners) >= 3
    for name, ip in listeners:
        assert ip in ("127.0.0.1", "::1", "::ffff:127.0.0.1"), name


@pytest.mark.cluster
def test_other_users_of_this_machine_cannot_connect_to_the_cluster(tmp_path):
    """Otherwise they could run code in it: the cluster refuses clients without its keys."""
    from distributed import Client, Security, default_client

    with workers("dask", jobs=1):
        address = default_client().scheduler_info()["address"]
        assert address.startswith("tls://")
        for security in (None, Security.temporary()):
            with pytest.raises((OSError, TypeError)):
                Client(
                    address.replace("tls", "tcp") if security is None else address,
                    security=security,
                    timeout=3,
                )


@pytest.mark.cluster
def test_dask_process_that_dies_at_start_up_is_reported(monkeypatch):
    import dask

    with (
        dask.config.set({"distributed.nanny.preload": ["/no/such/module.py"]}),
        pytest.raises(hl.errors.WorkerLost, match="could not be started on this machine"),
    ):
        workers("dask", jobs=1).__enter__()


@pytest.fixture
def silent_server():
    """A server that accepts connections and never sends anything, as an HTTP server does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def talkative_server():
    """A server that greets in another protocol."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            with suppress(OSError), server.accept()[0] as connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
                connection.recv(100)

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_server_of_another_program_is_told_from_a_cluster(
    silent_server, talkative_server, monkeypatch
):
    monkeypatch.setattr("heirloom.runs.workers.dask.TIMEOUT", 0.2)
    with pytest.raises(OSError, match="timed out"):
        check_reachable(silent_server)
    with pytest.raises(OSError, match="another program listens there"):
        check_reachable(talkative_server)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:99999", "expected a port from 1 to 65535"),
        ("tcp://127.0.0.1:0", "expected a port from 1 to 65535"),
        ("127.0.0.1:-5", "expected a port from 1 to 65535"),
        ("127.0.0.1:" + "9" * 5000, "no Dask scheduler answers there"),
        ("[::1]:1", "no Dask scheduler answers there"),
        ("127.0.0.1:1", "no Dask scheduler answers there"),
        ("no\x1b[31m.invalid:6379", r"'no\\x1b\[31m.invalid:6379', but no .* answers there"),
    ],
)
def test_address_without_a_cluster_is_refused_on_one_line(address, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message) as raised:
        workers("dask", address=address).__enter__()
    assert str(raised.value).isprintable()
