"""`logdriven ui` before Dagster starts; what a person then sees is in tests/ui."""

import socket


def test_a_port_that_is_taken_is_reported(shop, logdriven):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = logdriven("ui", "--port", port)
    assert result.code == 2
    assert f"port {port} on 127.0.0.1 is in use; choose another with --port" in result.err


def test_without_a_project_it_explains_how_to_name_one(tmp_path, logdriven, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = logdriven("ui")
    assert result.code == 2
    assert "set --project or LOGDRIVEN_PROJECT" in result.err
