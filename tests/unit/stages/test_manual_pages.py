"""Laws of rendering manual pages."""

import pytest

from stages.manual_pages import read_manual

PAGE = r""".\" a comment
.TH LS 1 "2024" "GNU" "User Commands"
.SH NAME
ls, dir \- list directory contents.
.SH SYNOPSIS
.B ls
[\fIOPTION\fR]... [\fIFILE\fR]...
.SH OPTIONS
.TP
\fB\-a\fR, \fB\-\-all\fR
do not ignore entries starting with .
.BR chmod (1)
and \(lqquotes\(rq.
"""


def test_a_page_becomes_plain_text_without_troff():
    text = read_manual(PAGE).text
    assert "ls [OPTION]... [FILE]..." in text
    assert '-a, --all do not ignore entries starting with . chmod(1) and "quotes".' in text
    assert "\\" not in text
    assert "comment" not in text


def test_headings_are_paragraphs_in_the_order_of_the_page():
    blocks = read_manual(PAGE).text.split("\n\n")
    assert [b for b in blocks if b.isupper()] == ["NAME", "SYNOPSIS", "OPTIONS"]


@pytest.mark.parametrize(
    ("heading", "line", "name", "summary"),
    [
        ("NAME", "ls \\- list files", "ls", "list files"),
        ("NAME", "ls, dir, vdir \\- list files.", "ls", "list files"),
        ('"NAME"', "read-line - read one line", "read-line", "read one line"),
        ("名称", "ls \\- 列出目录内容。", "ls", "列出目录内容"),
        ("NAME 名称", "ls - 列出目录内容", "ls", "列出目录内容"),
        ("NAME", ".B ls\n\\- list files", "ls", "list files"),
        ("NAME", ".BR ls ,\n.B dir\n\\- list\nmany files", "ls", "list many files"),
        ("NAME", "no dash here", "", ""),
        ("DESCRIPTION", "ls \\- list files", "", ""),
    ],
)
def test_name_and_summary_come_from_the_name_section(heading, line, name, summary):
    page = read_manual(f".TH X 1\n.SH {heading}\n{line}\n.SH DESCRIPTION\nother \\- text\n")
    assert (page.name, page.summary) == (name, summary)


def test_a_heading_may_stand_on_the_next_line():
    page = read_manual(".SH\nNAME\nls \\- list files\n.SS Details\nMore.\n")
    assert (page.text, page.name) == ("NAME\n\nls - list files\n\nDetails\n\nMore.", "ls")


def test_the_tag_of_an_indented_paragraph_is_kept():
    assert (
        read_manual('.SH X\n.IP "\\-a" 4\nall\n.IP \\(bu 2\npoint\n.IP\nmore\n').text
        == "X\n\n-a all\n\n* point\n\nmore"
    )


@pytest.mark.parametrize("source", ["", "\n\n", ".SH", ".B", ".TH", "'", "\\", ".IP", '.BR "', "\\f("])
def test_the_smallest_pages_do_not_fail(source):
    assert read_manual(source).name == ""
