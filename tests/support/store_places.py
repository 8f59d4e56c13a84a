"""Where an artifact store keeps its bytes, seen from behind: for tests that lose and overwrite them.

`open` gives the store as one more machine sees it, with nothing in its cache.
"""

import itertools
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from infra.artifacts import file_sha256
from infra.settings import Settings
from infra.stores.base import Store
from infra.stores.bucket import ObjectMissingError
from infra.stores.cache import Cache
from infra.stores.local import LocalStore
from infra.stores.opening import open_store
from infra.stores.s3 import S3Store
from tests.support.s3_server import BUCKET, S3Server


def make_folder(root: Path, files: dict[str, bytes]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def bytes_below(directory: Path) -> dict[str, bytes]:
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


class LocalPlace:
    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self) -> Store:
        return LocalStore(self._root)

    def stored_keys(self) -> set[str]:
        return set(bytes_below(self._root))

    def read(self, key: str) -> bytes:
        return (self._root / key).read_bytes()

    def write(self, key: str, data: bytes) -> None:
        make_folder(self._root, {key: data})

    def delete(self, key: str) -> None:
        (self._root / key).unlink()


class MemoryBucket:
    """`Bucket` in memory. `uploaded` and `downloaded` say what went over the wire; `spoilt` keys arrive wrong once."""

    url = "s3://memory"

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, str]] = {}
        self.uploaded: list[str] = []
        self.downloaded: list[str] = []
        self.spoilt: set[str] = set()
        self._lock = threading.Lock()

    def read(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectMissingError(key)
        return self.objects[key][0]

    def write(self, key: str, data: bytes) -> None:
        self.objects[key] = (data, "")

    def create(self, key: str, data: bytes) -> None:
        with self._lock:
            self.objects.setdefault(key, (data, ""))

    def sizes(self, prefix: str, Delimiter: str = "") -> dict[str, int]:
        keys = [key for key in self.objects if key.startswith(prefix)]
        return {key: len(self.objects[key][0]) for key in keys if not (Delimiter and Delimiter in key[len(prefix) :])}

    def hashes(self, keys: Sequence[str]) -> list[str]:
        return [self.objects.get(key, (b"", ""))[1] for key in keys]

    def upload(self, files: Sequence[tuple[Path, str, str]]) -> None:
        for path, key, sha256 in files:
            self.uploaded.append(key)
            self.objects[key] = (path.read_bytes(), sha256)

    def download(self, files: Sequence[tuple[str, Path]]) -> Iterator[str]:
        for key, path in files:
            self.downloaded.append(key)
            path.write_bytes(self.read(key)[:: -1 if key in self.spoilt else 1])
            self.spoilt.discard(key)
            yield file_sha256(path)

    def abort_uploads(self, prefix: str) -> None:
        """Nothing is ever half uploaded here."""


class MemoryPlace:
    def __init__(self, root: Path) -> None:
        self.bucket = MemoryBucket()
        self._homes = (root / f"machine-{i}" for i in itertools.count())

    def open(self) -> Store:
        return S3Store(self.bucket, Cache(next(self._homes), 2**40))

    def stored_keys(self) -> set[str]:
        return set(self.bucket.objects)

    def read(self, key: str) -> bytes:
        return self.bucket.read(key)

    def write(self, key: str, data: bytes) -> None:
        self.bucket.write(key, data)

    def delete(self, key: str) -> None:
        del self.bucket.objects[key]


class S3Place:
    """A prefix of its own in the bucket of a real server."""

    def __init__(self, server: S3Server, root: Path) -> None:
        self.server, self.root = server, root
        self.prefix = f"team/{uuid.uuid4().hex}"
        self.url = f"s3://{BUCKET}/{self.prefix}"
        self._client = server.client()
        self._homes = (root / f"machine-{i}" for i in itertools.count())

    @property
    def environment(self) -> dict[str, str]:
        return {"GLMFLOW_STORE_URL": self.url, "GLMFLOW_S3_ENDPOINT_URL": self.server.url}

    def settings(self) -> Settings:
        return Settings(home=next(self._homes), store_url=self.url, s3_endpoint_url=self.server.url)

    def open(self) -> Store:
        return open_store(self.settings())

    def stored_keys(self) -> set[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.prefix}/")
        return {item["Key"].removeprefix(f"{self.prefix}/") for page in pages for item in page.get("Contents", ())}

    def read(self, key: str) -> bytes:
        return self._client.get_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}")["Body"].read()

    def write(self, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}", Body=data)

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}")

    def unfinished_uploads(self) -> list[str]:
        found = self._client.list_multipart_uploads(Bucket=BUCKET, Prefix=f"{self.prefix}/")
        return [upload["Key"] for upload in found.get("Uploads", ())]
