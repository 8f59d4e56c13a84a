"""Manual pages (troff, man macros) to plain text, with the name and the summary of the NAME line."""

import re
from dataclasses import dataclass

_FONT = re.compile(r"\\f(?:[A-Z0-9]|\([A-Z]{2}|\[\w*\])")
_SIZE_OR_MOTION = re.compile(r"\\s[-+]?\d+|\\[,/&|^%:]|\\h'[^']*'|\\v'[^']*'")
_NAMED = re.compile(r"\\\((\w\w|[^\s\w].)|\\\[(\w+)\]|\\\*\((\w\w)|\\\*(\w)")
_CHARACTERS = {"aq": "'", "cq": "'", "oq": "'", "lq": '"', "rq": '"', "dq": '"', "em": "-", "en": "-", "bu": "*"}
_CHARACTERS |= {"co": "(c)", "rs": "\\", "ti": "~", "ha": "^", "ga": "`", "hy": "-", "mu": "x", "la": "<", "ra": ">"}
_FORMATTED = {".B", ".I", ".R", ".BR", ".RB", ".BI", ".IB", ".IR", ".RI", ".SM", ".SB", ".Nm", ".Nd", ".Fl", ".Ar"}
_HEADINGS = {".SH", ".SS", ".Sh", ".Ss"}
_PARAGRAPHS = {".PP", ".P", ".LP", ".TP", ".HP", ".sp", ".br", ".TQ", ".RS", ".RE", ".nf", ".fi", ".EX", ".EE"}
_NAME_HEADINGS = {"NAME", "名称", "名字", "NAME 名称", "名称 NAME", "名字 NAME"}
_NAME_LINE = re.compile(r"^(?P<names>\S.*?)\s+-+\s+(?P<summary>.+)$")


@dataclass(frozen=True)
class ManualPage:
    """A rendered page; `name` and `summary` are empty where the NAME line has another form."""

    text: str
    name: str
    summary: str


def read_manual(source: str) -> ManualPage:
    """Render one page. Unknown requests are left out; their text arguments too."""
    blocks: list[str] = []
    words: list[str] = []
    name_words: list[str] = []
    heading: str | None = ""  # None: the next line is the heading

    def end_paragraph() -> None:
        if text := " ".join(words).strip():
            blocks.append(text)
        words.clear()

    for line in source.splitlines():
        request, _, rest = line.partition(" ")
        if line.startswith(('.\\"', "'\\\"")):
            continue
        if request in _HEADINGS:
            end_paragraph()
            heading = _inline(rest.strip().strip('"')) or None
            blocks += [heading] if heading else []
        elif request == ".IP":
            end_paragraph()
            words += [_inline(_arguments(rest, limit=1))] if rest.strip() else []
        elif request in _PARAGRAPHS or not line.strip():
            end_paragraph()
        elif request in _FORMATTED or not line.startswith((".", "'")):
            text = _inline(_formatted(request, rest) if request in _FORMATTED else line.strip())
            if heading is None:
                heading = text
                blocks.append(text)
                continue
            words.append(text)
            if heading in _NAME_HEADINGS:
                name_words.append(text)
    end_paragraph()
    match = _NAME_LINE.match(" ".join(name_words))
    if match is None:
        return ManualPage("\n\n".join(blocks), "", "")
    return ManualPage("\n\n".join(blocks), match["names"].split(",")[0].strip(), match["summary"].strip().rstrip(".。"))


def _formatted(request: str, rest: str) -> str:
    """The argument of a font request; requests of two fonts set their arguments without space between them."""
    return _arguments(rest, glue=len(request) == 3 and request not in {".SM", ".SB"})


def _arguments(rest: str, *, glue: bool = False, limit: int | None = None) -> str:
    parts = re.findall(r'"([^"]*)"|(\S+)', rest)
    return ("" if glue else " ").join(quoted or plain for quoted, plain in parts[:limit])


def _inline(text: str) -> str:
    text = _SIZE_OR_MOTION.sub("", _FONT.sub("", text))
    text = _NAMED.sub(lambda m: _CHARACTERS.get(next(filter(None, m.groups()), ""), ""), text)
    return text.replace("\\-", "-").replace("\\ ", " ").replace("\\e", "\\").replace("\\.", ".").replace("\\~", " ")
