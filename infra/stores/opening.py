"""Which store an installation uses: the only place that chooses."""

from infra.errors import BadSpecError
from infra.settings import Settings
from infra.stores.base import Store
from infra.stores.local import LocalStore

_SCHEME = "s3://"


def open_store(settings: Settings) -> Store:
    """The store that GLMFLOW_STORE_URL names, or the local one. Raises BadSpecError for a URL that names none."""
    if not settings.store_url:
        return LocalStore(settings.store_dir)
    from infra.stores.bucket import Bucket  # boto3 only where it is used
    from infra.stores.cache import Cache
    from infra.stores.s3 import S3Store

    name, prefix = parse_url(settings.store_url)
    bucket = Bucket(name, prefix, settings.s3_endpoint_url)
    return S3Store(bucket, Cache(settings.store_cache_dir, settings.store_cache_bytes))


def parse_url(url: str) -> tuple[str, str]:
    """Bucket and prefix of `s3://bucket/prefix`."""
    if "@" in url:  # not repeated: it holds a secret
        raise BadSpecError("GLMFLOW_STORE_URL: want s3://bucket/prefix, got one with credentials; set AWS_* instead")
    name, _, prefix = url.removeprefix(_SCHEME).rstrip("/").partition("/")
    parts = prefix.split("/") if prefix else []
    if not url.startswith(_SCHEME) or not name or any(part in {"", ".", ".."} for part in parts):
        raise BadSpecError(f"GLMFLOW_STORE_URL: want s3://bucket/prefix, or nothing for a folder, got {url[:60]!r}")
    return name, prefix
