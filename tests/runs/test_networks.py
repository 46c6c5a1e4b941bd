"""Clusters on this machine listen on loopback only, and addresses that do not answer fail early."""

import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest
from heirloom.runs.workers.addresses import check_reachable, host_and_port

import heirloom as hl
from heirloom.runs.workers import workers

LISTENERS = """
import sys
import psutil
from heirloom.runs.workers import workers

if __name__ == "__main__":
    with workers(sys.argv[1], jobs=2):
        this = psutil.Process()
        for process in (this, *this.children(recursive=True)):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    print(process.name(), connection.laddr.ip)
"""


@pytest.mark.cluster
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_cluster_on_this_machine_listens_on_loopback_only(backend, tmp_path):
    script = tmp_path / "listeners.py"
    script.write_text(LISTENERS)
    command = [sys.executable, script, backend]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listeners = [line.rsplit(" ", 1) for line in output.splitlines()]
    assert len(listeners) >= 3
    for name, ip in listeners:
        assert ip in ("127.0.0.1", "::1", "::ffff:127.0.0.1"), name


DYING = """
import sys
import time
from heirloom.errors import WorkerLost
from heirloom.runs.workers import workers
from ray._private import services

setattr(services, sys.argv[1], "/bin/false")
started = time.monotonic()
try:
    workers("ray", jobs=1).__enter__()
except WorkerLost as error:
    print(time.monotonic() - started, error)
"""


@pytest.mark.cluster
@pytest.mark.parametrize("executable", ["RAYLET_EXECUTABLE", "GCS_SERVER_EXECUTABLE"])
def test_ray_process_that_dies_at_start_up_is_reported_early(executable):
    """Ray itself takes over 30 seconds to notice."""
    command = [sys.executable, "-c", DYING, executable]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, _, message = output.partition(" ")
    assert "one of its processes ended at once" in message
    assert float(seconds) < 20


@pytest.mark.cluster
def test_dask_process_that_dies_at_start_up_is_reported(monkeypatch):
    import dask

    with (
        dask.config.set({"distributed.nanny.preload": ["/no/such/module.py"]}),
        pytest.raises(hl.WorkerLost, match="could not be started on this machine"),
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


@pytest.mark.parametrize("protocol", ["dask", "grpc"])
def test_server_of_another_program_is_told_from_a_cluster(
    protocol, silent_server, talkative_server, monkeypatch
):
    monkeypatch.setattr("heirloom.runs.workers.addresses.TIMEOUT", 0.2)
    with pytest.raises(OSError, match=r"no answer within 0\.2 seconds"):
        check_reachable(silent_server, protocol)
    with pytest.raises(OSError, match="another program listens there"):
        check_reachable(talkative_server, protocol)


@pytest.mark.parametrize("backend", ["dask", "ray"])
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:99999", "expected a port from 1 to 65535"),
        ("tcp://127.0.0.1:0", "expected a port from 1 to 65535"),
        ("127.0.0.1:-5", "expected a port from 1 to 65535"),
        ("127.0.0.1:" + "9" * 5000, "expected a port from 1 to 65535"),
        ("127.0.0.1:1", "answers there"),
        ("no\x1b[31m.invalid:6379", r"'no\\x1b\[31m.invalid:6379', but no .* answers there"),
    ],
)
def test_address_without_a_cluster_is_refused_on_one_line(backend, address, message):
    pytest.importorskip(backend)
    with pytest.raises(hl.InvalidArgument, match=message) as raised:
        workers(backend, address=address).__enter__()
    assert str(raised.value).isprintable()


def test_port_is_read_from_addresses_of_all_forms():
    assert host_and_port("tcp://head:8786") == ("head", 8786)
    assert host_and_port("[::1]:80") == ("::1", 80)
    assert host_and_port("ray://head:10001/") == ("head", 10001)
    for without in ("auto", "scheduler.json", "head", "tcp://", ""):
        assert host_and_port(without) is None
