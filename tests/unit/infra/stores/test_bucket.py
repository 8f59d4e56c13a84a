"""What boto3 says becomes a refusal with the variable to set, or an error that is worth a retry."""

from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from infra.errors import ArtifactMissingError, BadSpecError, GlmflowError, RetryableError
from infra.stores import bucket as bucket_module
from infra.stores.bucket import Bucket, ObjectMissingError

NOBODY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials but those of a test, and no patience."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setattr(bucket_module, "NUM_ATTEMPTS", 1)


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "examplekey")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")


def refusal(code: str, status: int) -> GlmflowError:
    response = {"Error": {"Code": code, "Message": "hush"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(GlmflowError) as caught, Bucket("name", "p", NOBODY)._translated():
        raise ClientError(response, "GetObject")
    return caught.value


@pytest.mark.parametrize(
    ("code", "status", "kind", "says"),
    [
        ("NoSuchBucket", 404, BadSpecError, "want a bucket that exists, got 'name'; set GLMFLOW_STORE_URL"),
        ("InvalidAccessKeyId", 403, BadSpecError, "got InvalidAccessKeyId; set AWS_ACCESS_KEY_ID and AWS_SECRET"),
        ("SignatureDoesNotMatch", 403, BadSpecError, "got SignatureDoesNotMatch; set AWS_ACCESS_KEY_ID"),
        ("403", 403, BadSpecError, "got 403; set AWS_ACCESS_KEY_ID"),
        ("InvalidArgument", 400, BadSpecError, "check GLMFLOW_STORE_URL and GLMFLOW_S3_ENDPOINT_URL"),
        ("SlowDown", 503, RetryableError, "got SlowDown; run the same command again"),
        ("502", 502, RetryableError, "got 502; run the same command again"),
        ("BadDigest", 400, RetryableError, "got BadDigest; run the same command again"),
        ("NoSuchKey", 404, ArtifactMissingError, "want an object, got none; re-run the stage that made it"),
    ],
)
def test_every_answer_that_is_no_success_says_what_to_do(code: str, status: int, kind: type, says: str):
    error = refusal(code, status)
    assert isinstance(error, kind) and says in str(error)
    assert str(error).startswith(f"store s3://name/p: GetObject at {NOBODY}: want ") and "hush" not in str(error)


def test_an_object_that_is_not_there_has_a_type_of_its_own():
    assert type(refusal("404", 404)) is ObjectMissingError


@pytest.mark.usefixtures("credentials")
def test_an_endpoint_where_nobody_listens_is_worth_a_retry(tmp_path: Path):
    bucket = Bucket("name", "p", NOBODY)
    (tmp_path / "f").write_bytes(b"1")
    for call in (
        lambda: bucket.read("k"),
        lambda: bucket.create("k", b"1"),
        lambda: bucket.sizes("k"),
        lambda: bucket.hashes(["k"]),
        lambda: bucket.upload([(tmp_path / "f", "k", "0")]),
        lambda: list(bucket.download([("k", tmp_path / "g")])),
        lambda: bucket.abort_uploads("k"),
    ):
        with pytest.raises(RetryableError, match=f"want an answer from {NOBODY}, got EndpointConnectionError; check"):
            call()


def test_without_credentials_the_variables_are_named():
    with pytest.raises(BadSpecError, match=r"want credentials, got none .*; set AWS_ACCESS_KEY_ID and AWS_"):
        Bucket("name", "", NOBODY).read("k")


def test_a_profile_that_does_not_exist_is_refused_alike(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(BadSpecError, match=r"ProfileNotFound.*AWS_PROFILE"):
        Bucket("name", "", NOBODY)


@pytest.mark.usefixtures("credentials")
def test_a_bucket_name_that_cannot_be_is_refused():
    with pytest.raises(BadSpecError, match="want the name of a bucket, got 'no bucket!'; set GLMFLOW_STORE_URL"):
        Bucket("no bucket!", "", NOBODY).read("k")
