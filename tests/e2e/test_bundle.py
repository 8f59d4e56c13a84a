"""A real bundle, with every real wheel, installs and serves in a network namespace that has nothing but loopback."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.tiny_release import write_model

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]
TIMEOUT_S = 1200
# Runs inside the namespace: loopback up, installed from the bundle, served, asked.
OFFLINE = """
import fcntl, json, pathlib, signal, socket, struct, subprocess, sys, urllib.request
bundle, venv = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up and running
assert [name for _, name in socket.if_nameindex()] == ["lo"]
subprocess.run(["sh", bundle / "install.sh", venv], check=True)
server = subprocess.Popen([venv / "bin/glmflow", "serve", bundle / "models/model", "--port", "8000"],
                          cwd="/", stdout=subprocess.PIPE, text=True)
try:
    while "http://127.0.0.1:8000" not in (line := server.stdout.readline()):
        assert line, "the server ended"
    body = json.dumps({"model": "glmflow", "messages": [{"role": "user", "content": "2 + 2"}], "max_tokens": 4})
    request = urllib.request.Request("http://127.0.0.1:8000/v1/chat/completions", body.encode(),
                                     {"Content-Type": "application/json"})
    print("ANSWER " + urllib.request.urlopen(request).read().decode())
finally:
    server.send_signal(signal.SIGTERM)
    server.wait(30)
"""


def test_it_installs_and_serves_with_the_network_off(tmp_path: Path):
    write_model(tmp_path / "model")
    environment = {**os.environ, "GLMFLOW_HOME": str(tmp_path / "home")}
    output = tmp_path / "glmflow-bundle.tar"
    made = [sys.executable, "-m", "flows.cli", "bundle", str(tmp_path / "model"), "--output", str(output)]
    subprocess.run(made, cwd=ROOT, env=environment, check=True, timeout=TIMEOUT_S)
    with tarfile.open(output) as archive:
        archive.extractall(tmp_path, filter="data")
    outside = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHON": sys.executable, "HOME": str(tmp_path)}
    done = subprocess.run(
        ["unshare", "-n", sys.executable, "-I", "-c", OFFLINE, tmp_path / "glmflow-bundle", tmp_path / "venv"],
        env=outside, cwd="/", capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.rpartition("ANSWER ")[2])
    assert answer["choices"][0]["message"]["role"] == "assistant" and answer["usage"]["completion_tokens"] > 0
