"""One setting decides which store is used."""

from pathlib import Path

import pytest

from infra.errors import BadSpecError
from infra.settings import Settings
from infra.stores.local import LocalStore
from infra.stores.opening import open_store, parse_url
from infra.stores.s3 import S3Store


def test_without_a_url_artifacts_are_kept_below_home(tmp_path: Path):
    store = open_store(Settings(home=tmp_path))
    assert isinstance(store, LocalStore) and store.place == str(tmp_path / "store")


def test_a_url_of_a_bucket_opens_it_without_asking_the_network(tmp_path: Path):
    store = open_store(Settings(home=tmp_path, store_url="s3://bucket/team/a/", s3_endpoint_url="http://127.0.0.1:9"))
    assert isinstance(store, S3Store) and store.place == "s3://bucket/team/a"


@pytest.mark.parametrize(
    ("url", "wanted"),
    [("s3://b", ("b", "")), ("s3://b/", ("b", "")), ("s3://b/p", ("b", "p")), ("s3://b/p/q/", ("b", "p/q"))],
)
def test_a_url_names_a_bucket_and_a_prefix(url: str, wanted: tuple[str, str]):
    assert parse_url(url) == wanted


@pytest.mark.parametrize("url", ["b/p", "http://b/p", "s3://", "s3:///p", "s3://b//p", "s3://b/../p", "/var/store"])
def test_another_url_is_refused(url: str):
    with pytest.raises(BadSpecError, match=rf"^GLMFLOW_STORE_URL: want s3://bucket/prefix, .*, got '{url}'"):
        parse_url(url)


def test_a_secret_in_the_url_is_refused_and_not_repeated():
    with pytest.raises(BadSpecError, match="got one with credentials; set AWS_") as refusal:
        parse_url("s3://key:hush@bucket/prefix")
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize("endpoint", ["localhost:9000", "not a url", "http://"])
def test_an_endpoint_that_is_no_url_is_refused_by_the_name_of_its_variable(tmp_path: Path, endpoint: str):
    with pytest.raises(BadSpecError, match=r"want an endpoint such as https://host:port, .*; set GLMFLOW_S3_ENDPOINT"):
        open_store(Settings(home=tmp_path, store_url="s3://bucket", s3_endpoint_url=endpoint))
