"""References are values: typed, frozen, and made of bytes only."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from infra.artifacts import ArtifactRef, Model, Tokenizer, list_files

DIGEST = "ab" * 32


def test_a_reference_of_one_kind_is_refused_where_another_is_wanted():
    with pytest.raises(ValidationError, match="tokenizer"):
        Tokenizer.model_validate(Model(digest=DIGEST, num_bytes=1).model_dump())


@pytest.mark.parametrize("digest", ["", "xy" * 32, "AB" * 32, "ab" * 31])
def test_a_digest_is_64_lower_case_hex_digits(digest: str):
    with pytest.raises(ValidationError, match="digest"):
        Model(digest=digest, num_bytes=1)


@pytest.mark.parametrize("kind", ["", "..", "../x", "a/b", "/etc", "Model", "a\0", "model\n", "a b"])
def test_a_kind_is_a_plain_name_that_leads_nowhere_else(kind: str):
    with pytest.raises(ValidationError, match="kind"):
        ArtifactRef(kind=kind, digest=DIGEST, num_bytes=1)


def test_files_are_listed_in_path_order_whatever_order_they_were_written_in(tmp_path: Path):
    for name in ("b", "a/z", "a.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    assert [f.path for f in list_files(tmp_path)] == ["a.txt", "a/z", "b"]
    assert Model.of(list_files(tmp_path)).short == "model:" + Model.of(list_files(tmp_path)).digest[:12]
