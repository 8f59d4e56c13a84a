"""Content-addressed artifact store in a bucket, with a local cache in front of it.

Writing: the directory is copied, the copy is hashed, its files are uploaded with their hash as metadata, and when all
are there the list of files is created; that is the commit, of several writers one wins, with equal bytes. The copy then
goes into the cache. A writer that was killed leaves complete objects and unfinished uploads: the next one uploads only
what is missing, and then ends those.

Reading: files are downloaded beside their place in the cache, hashed as they come in, and published together; what a
killed reader had completed is kept. A wrong byte is refused, fetched once more, and then an error.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from infra.artifacts import ArtifactRef, FileEntry, file_sha256, list_files, tree_digest
from infra.errors import ArtifactMissingError, RetryableError
from infra.stores.base import (
    ALL_FILES,
    LIST_SUFFIX,
    Ref,
    Store,
    dump_list,
    only_one,
    parse_list,
    place_of,
    require_directory,
)
from infra.stores.bucket import Bucket, ObjectMissingError
from infra.stores.cache import Cache

MAX_UPLOAD_ROUNDS = 3  # another writer that commits first ends our unfinished uploads
MAX_FETCHES = 2


class S3Store(Store):
    """Artifacts in a bucket."""

    def __init__(self, bucket: Bucket, cache: Cache) -> None:
        self._bucket = bucket
        self._cache = cache

    @property
    def place(self) -> str:
        """The URL of bucket and prefix."""
        return self._bucket.url

    def put(self, directory: Path, ref_type: type[Ref]) -> Ref:
        """Copy `directory` in under its digest; repeating it is free, and goes on where one was killed."""
        require_directory(directory, ref_type)
        with self._cache.copied(directory) as copy:  # the original may change meanwhile
            files = list_files(copy)
            ref = ref_type.of(files)
            self._upload(copy, ref, files)
            self._commit(ref, files)
            self._cache.hold(ref)
            self._cache.local.publish(copy, ref, files)
        return ref

    def get(self, ref: ArtifactRef) -> Path:
        """The artifact's directory in the cache, for reading only; it stays there as long as this process."""
        self._cache.hold(ref)
        if self._cache.local.missing_files(ref):
            with self._cache.fetching(ref) as partial:
                if self._cache.local.missing_files(ref):  # nobody fetched it while we waited
                    self._fetch(ref, partial)
        return self._cache.local.path(ref)

    def missing_files(self, ref: ArtifactRef) -> tuple[str, ...]:
        """Relative paths that are absent or have another size; ALL_FILES when the whole artifact is absent."""
        try:
            files = parse_list(self._bucket.read(_list_key(ref)), ref)
        except ObjectMissingError:
            return ALL_FILES
        except ValueError:  # the list itself was cut or overwritten
            return (ref.digest + LIST_SUFFIX,)
        sizes = self._sizes(ref)
        return tuple(f.path for f in files if sizes.get(_key(ref, f)) != f.num_bytes)

    def verify_bytes(self, ref: ArtifactRef) -> None:
        """Raise ArtifactMissingError unless every byte that `get` gives is what the digest promises."""
        self.verify(ref)
        if tree_digest(list_files(self.get(ref))) != ref.digest:
            self._cache.forget(ref)
            self.get(ref)

    def find(self, digest_prefix: str, kinds: tuple[str, ...]) -> ArtifactRef | None:
        """The one artifact of these kinds whose digest starts with the prefix, or None."""
        found = [
            (kind, key.rpartition("/")[2].removesuffix(LIST_SUFFIX))
            for kind in kinds
            for key in self._bucket.sizes(f"{kind}/{digest_prefix[:2]}/{digest_prefix}", Delimiter="/")
            if key.endswith(LIST_SUFFIX)
        ]
        if not only_one(digest_prefix, len(found)):
            return None
        kind, digest = found[0]
        ref = ArtifactRef(kind=kind, digest=digest, num_bytes=0)
        return ref.model_copy(update={"num_bytes": sum(f.num_bytes for f in self._files(ref))})

    def _sizes(self, ref: ArtifactRef) -> dict[str, int]:
        return self._bucket.sizes(f"{place_of(ref)}/")

    def _files(self, ref: ArtifactRef) -> tuple[FileEntry, ...]:
        try:
            return parse_list(self._bucket.read(_list_key(ref)), ref)
        except ValueError as error:
            raise ArtifactMissingError(
                f"artifact {ref.short}: want the list of its files in {self.place}/{_list_key(ref)}, "
                f"got one that does not belong to it; delete it and re-run the stage that made the artifact"
            ) from error

    def _lacking(self, ref: ArtifactRef, files: tuple[FileEntry, ...]) -> list[FileEntry]:
        """The files that are not in the bucket with their size and, as metadata, their hash."""
        sizes = self._sizes(ref)
        present = [f for f in files if sizes.get(_key(ref, f)) == f.num_bytes]
        hashes = dict(zip(present, self._bucket.hashes([_key(ref, f) for f in present]), strict=True))
        return [f for f in files if hashes.get(f) != f.sha256]

    def _upload(self, source: Path, ref: ArtifactRef, files: tuple[FileEntry, ...]) -> None:
        for _ in range(MAX_UPLOAD_ROUNDS):
            lacking = self._lacking(ref, files)
            if not lacking:
                return
            self._bucket.upload([(source / f.path, _key(ref, f), f.sha256) for f in lacking])
        raise RetryableError(
            f"artifact {ref.short}: want all its files in {self.place}, got none of {lacking[0].path!r}; "
            f"run the same command again"
        )

    def _commit(self, ref: ArtifactRef, files: tuple[FileEntry, ...]) -> None:
        data = dump_list(files)
        self._bucket.create(_list_key(ref), data)
        if self._bucket.read(_list_key(ref)) != data:  # it was cut or overwritten; every writer would write these bytes
            self._bucket.write(_list_key(ref), data)
        self._bucket.abort_uploads(f"{place_of(ref)}/")

    def _fetch(self, ref: ArtifactRef, partial: Path) -> None:
        self.verify(ref)
        files = self._files(ref)
        self._cache.make_room(ref.num_bytes)
        _keep_only(partial, files)
        wrong = [f for f in files if not _is_whole(partial, f)]
        for _ in range(MAX_FETCHES):
            if wrong:
                wrong = self._download(ref, partial, wrong)
        if wrong:
            raise ArtifactMissingError(
                f"artifact {ref.short}: want sha256 {wrong[0].sha256[:12]} in {self.place}/{_key(ref, wrong[0])}, "
                f"got changed bytes twice; delete that object and re-run the stage that made the artifact"
            )
        self._cache.local.publish(partial, ref, files)
        shutil.rmtree(partial, ignore_errors=True)  # a writer here may have been first

    def _download(self, ref: ArtifactRef, partial: Path, files: Sequence[FileEntry]) -> list[FileEntry]:
        """Download the files; returns those whose bytes are wrong. They are hashed as they come in."""
        for file in files:
            (partial / file.path).parent.mkdir(parents=True, exist_ok=True)
        hashes = self._bucket.download([(_key(ref, f), partial / f.path) for f in files])
        return [f for f, sha256 in zip(files, hashes, strict=True) if sha256 != f.sha256]


def _list_key(ref: ArtifactRef) -> str:
    return place_of(ref) + LIST_SUFFIX


def _key(ref: ArtifactRef, file: FileEntry) -> str:
    return f"{place_of(ref)}/{file.path}"


def _is_whole(directory: Path, file: FileEntry) -> bool:
    path = directory / file.path
    return path.is_file() and path.stat().st_size == file.num_bytes and file_sha256(path) == file.sha256


def _keep_only(directory: Path, files: tuple[FileEntry, ...]) -> None:
    """Remove what does not belong to the artifact: the unfinished files of a reader that was killed."""
    wanted = {directory / file.path for file in files}
    for path in [p for p in directory.rglob("*") if p.is_symlink() or (p.is_file() and p not in wanted)]:
        path.unlink()
