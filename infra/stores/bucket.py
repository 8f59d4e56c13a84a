"""One bucket of an S3 endpoint, with the few operations that the store needs, and errors whose type says what to do.

Uploads and downloads run in parallel, large ones in parts; boto3 adds a checksum to each request, which the server
verifies. Credentials come from boto3's own chain and appear in no message.
"""

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import boto3
from boto3.s3.transfer import TransferConfig, create_transfer_manager
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    TokenRetrievalError,
)
from s3transfer.exceptions import RetriesExceededError
from s3transfer.subscribers import BaseSubscriber

from infra.errors import ArtifactMissingError, BadSpecError, GlmflowError, RetryableError

NUM_CONNECTIONS = 10
PART_BYTES = 16 * 2**20
NUM_ATTEMPTS = 5
HASH_KEY = "sha256"  # the metadata that holds a file's hash
TRANSFERS = TransferConfig(
    multipart_threshold=PART_BYTES,
    multipart_chunksize=PART_BYTES,
    io_chunksize=2**20,
    max_concurrency=NUM_CONNECTIONS,
    preferred_transfer_client="classic",  # the other one checks with other algorithms, where it is installed
)
_CREDENTIAL_ERRORS = (
    CredentialRetrievalError, NoCredentialsError, PartialCredentialsError, ProfileNotFound, TokenRetrievalError,
)  # fmt: skip
_ABSENT = {"404", "NoSuchKey", "NotFound"}
_LOST_RACE = {"409", "412", "ConditionalRequestConflict", "PreconditionFailed"}
_BAD_CREDENTIALS = {
    "401", "403", "AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch",
}  # fmt: skip
_PASSING = {"BadDigest", "InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown"}
_MIN_SERVER_ERROR = 500


class ObjectMissingError(ArtifactMissingError):
    """There is no object of this key."""


class _IncomingFile(BaseSubscriber):  # type: ignore[misc]
    """A file as it comes in, its parts in order: hashed on the way to the disk, at its path when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f".{uuid.uuid4().hex}")
        self._sha256 = hashlib.sha256()
        self._file: BinaryIO | None = None  # opened late: thousands may wait for their turn

    def write(self, data: bytes) -> None:
        """Called by one thread at a time."""
        if self._file is None:
            self._file = self._partial.open("wb")
        self._file.write(data)
        self._sha256.update(data)

    def on_done(self, **_: Any) -> None:
        """Complete or failed: nothing more will come."""
        if self._file is not None:
            self._file.close()

    def publish(self) -> str:
        """Give it its name; returns its hash."""
        self.on_done()  # boto3 may not have said so yet
        if self._file is None:
            self._partial.touch()
        self._partial.replace(self._path)
        return self._sha256.hexdigest()


class Bucket:
    """Objects below `prefix` in a bucket; every key is relative to it."""

    def __init__(self, name: str, prefix: str = "", endpoint_url: str = "") -> None:
        self.url = f"s3://{name}/{prefix}".rstrip("/")
        self._name, self._prefix, self._endpoint = name, f"{prefix}/" if prefix else "", endpoint_url or "AWS"
        config = Config(
            connect_timeout=10,
            read_timeout=60,
            max_pool_connections=NUM_CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": NUM_ATTEMPTS},
            s3={"addressing_style": "path" if endpoint_url else "auto"},
        )
        with self._translated():
            self._client = boto3.session.Session().client("s3", endpoint_url=endpoint_url or None, config=config)

    def read(self, key: str) -> bytes:
        """A small object. Raises ObjectMissingError."""
        with self._translated():
            body: bytes = self._client.get_object(Bucket=self._name, Key=self._prefix + key)["Body"].read()
        return body

    def write(self, key: str, data: bytes) -> None:
        """Create or replace a small object."""
        with self._translated():
            self._client.put_object(Bucket=self._name, Key=self._prefix + key, Body=data)

    def create(self, key: str, data: bytes) -> None:
        """Write a small object unless there is one already: of several writers, one wins."""
        with self._translated(ignored=_LOST_RACE):
            self._client.put_object(Bucket=self._name, Key=self._prefix + key, Body=data, IfNoneMatch="*")

    def sizes(self, prefix: str, **narrowing: str) -> dict[str, int]:
        """Keys that start with `prefix` and their sizes, in the order of the keys (endpoints differ in theirs)."""
        pages = self._pages("list_objects_v2", prefix, **narrowing)
        items = [item for page in pages for item in page.get("Contents", ())]
        return {key.removeprefix(self._prefix): size for key, size in sorted((i["Key"], i["Size"]) for i in items)}

    def hashes(self, keys: Sequence[str]) -> list[str]:
        """The hash that each of these objects was uploaded with; '' for one that has none or is not there."""
        with ThreadPoolExecutor(NUM_CONNECTIONS) as pool:
            return list(pool.map(self._hash, keys))

    def upload(self, files: Sequence[tuple[Path, str, str]]) -> None:
        """Upload each (path, key, hash). One that another writer ended meanwhile is passed over: look again."""
        with self._translated(), create_transfer_manager(self._client, TRANSFERS) as manager:
            uploads = [
                manager.upload(str(path), self._name, self._prefix + key, extra_args={"Metadata": {HASH_KEY: sha256}})
                for path, key, sha256 in files
            ]
            for upload in uploads:
                with self._translated(ignored={"NoSuchUpload"}):
                    upload.result()

    def download(self, files: Sequence[tuple[str, Path]]) -> Iterator[str]:
        """Download each (key, path); gives their hashes in this order, each one when its file is complete."""
        with self._translated(), create_transfer_manager(self._client, TRANSFERS) as manager:
            incoming = [_IncomingFile(path) for _, path in files]
            downloads = [
                manager.download(self._name, self._prefix + key, file, subscribers=[file])
                for (key, _), file in zip(files, incoming, strict=True)
            ]
            for file, download in zip(incoming, downloads, strict=True):
                download.result()
                yield file.publish()

    def abort_uploads(self, prefix: str) -> None:
        """End every unfinished upload in parts whose key starts with `prefix`."""
        for page in self._pages("list_multipart_uploads", prefix):
            for upload in page.get("Uploads", ()):
                with self._translated(ignored={"NoSuchUpload"}):
                    self._client.abort_multipart_upload(
                        Bucket=self._name, Key=upload["Key"], UploadId=upload["UploadId"]
                    )

    def _pages(self, operation: str, prefix: str, **narrowing: str) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator(operation).paginate(
            Bucket=self._name, Prefix=self._prefix + prefix, **narrowing
        )
        with self._translated():
            yield from pages

    def _hash(self, key: str) -> str:
        try:
            with self._translated():
                head = self._client.head_object(Bucket=self._name, Key=self._prefix + key)
        except ObjectMissingError:
            return ""
        return str(head["Metadata"].get(HASH_KEY, ""))

    @contextmanager
    def _translated(self, ignored: frozenset[str] | set[str] = frozenset()) -> Iterator[None]:
        """Errors of boto3 as ours: refuse what a person has to change, retry what passes."""
        try:
            yield
        except ClientError as error:
            if str(error.response.get("Error", {}).get("Code", "")) not in ignored:
                raise self._refusal(error) from error
        except _CREDENTIAL_ERRORS as error:
            raise BadSpecError(
                f"store {self.url}: want credentials, got none that work ({type(error).__name__}); "
                f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            ) from error
        except ParamValidationError as error:
            raise BadSpecError(
                f"store {self.url}: want the name of a bucket, got {self._name[:60]!r}; set GLMFLOW_STORE_URL"
            ) from error
        except ValueError as error:  # boto3 parsed the endpoint
            raise BadSpecError(
                f"store {self.url}: want an endpoint such as https://host:port, got {self._endpoint[:60]!r}; "
                f"set GLMFLOW_S3_ENDPOINT_URL"
            ) from error
        except (BotoCoreError, RetriesExceededError) as error:
            raise RetryableError(
                f"store {self.url}: want an answer from {self._endpoint}, got {type(error).__name__}; check "
                f"GLMFLOW_S3_ENDPOINT_URL and the network, then run the same command again"
            ) from error

    def _refusal(self, error: ClientError) -> GlmflowError:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        asked = f"store {self.url}: {error.operation_name} at {self._endpoint}"
        if code in _ABSENT:
            return ObjectMissingError(f"{asked}: want an object, got none; re-run the stage that made it")
        if code == "NoSuchBucket":
            return BadSpecError(f"{asked}: want a bucket that exists, got {self._name!r}; set GLMFLOW_STORE_URL")
        if code in _BAD_CREDENTIALS:
            return BadSpecError(
                f"{asked}: want credentials that may do this, got {code}; set AWS_ACCESS_KEY_ID and "
                f"AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            )
        if code in _PASSING or status >= _MIN_SERVER_ERROR or status == 429:
            return RetryableError(f"{asked}: want success, got {code}; run the same command again")
        return BadSpecError(f"{asked}: want success, got {code}; check GLMFLOW_STORE_URL and GLMFLOW_S3_ENDPOINT_URL")
