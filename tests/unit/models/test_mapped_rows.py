import pytest

from models.mapped_rows import write_mapped_rows

ROWS = [{"a": [1, 2, 3], "b": [4]}, {"a": [], "b": [-100, 5]}]


def test_rows_come_back_as_they_were_from_a_mapped_file(tmp_path):
    rows = write_mapped_rows(tmp_path / "rows.arrow", ROWS, ("a", "b"))
    assert [rows[i] for i in range(2)] == ROWS
    assert rows.cache_files == [{"filename": str(tmp_path / "rows.arrow")}]


def test_no_row_is_refused(tmp_path):
    with pytest.raises(ValueError, match="want at least one row, got 0"):
        write_mapped_rows(tmp_path / "rows.arrow", [], ("a", "b"))
