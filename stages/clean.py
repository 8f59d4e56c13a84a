"""Stage `clean`: normalise every document, identify its language, keep what passes every filter, count why others fell.

Documents in = documents kept + documents rejected, by reason. The kept ones stay in their order.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from pydantic import Field

from infra.artifacts import CleanCorpus, RawCorpus
from infra.errors import BadSpecError
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.filters import AnyFilter
from stages.filters.language import LanguageFilter
from stages.filters.length import LengthFilter
from stages.filters.letters import LettersFilter
from stages.filters.lines import LinesFilter
from stages.filters.repetition import RepetitionFilter

_LINE_END = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060\ufeff\ufffe\uffff]")
_TRAILING_SPACE = re.compile(r"[ \t\u3000\xa0]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


class CleanConfig(StageModel):
    """Which filters judge, in this order; the first that rejects gives the reason."""

    filters: tuple[AnyFilter, ...] = Field(
        default=(LengthFilter(), LinesFilter(), LettersFilter(), RepetitionFilter(), LanguageFilter()),
        description="filters in the order in which they judge",
    )


class CleanInputs(StageModel):
    """The documents as they were read."""

    corpus: RawCorpus


class CleanOutputs(StageModel):
    """The documents that passed."""

    corpus: CleanCorpus


def normalise(text: str) -> str:
    """Unicode NFC, `\\n` line ends, no control or invisible characters, no trailing space, at most one blank line."""
    text = unicodedata.normalize("NFC", _CONTROL.sub("", _LINE_END.sub("\n", text)))
    return _BLANK_LINES.sub("\n\n", _TRAILING_SPACE.sub("", text)).strip("\n")


def run(config: CleanConfig, inputs: CleanInputs, ctx: StageContext) -> CleanOutputs:
    """Write the kept documents and the report of the rejected ones."""
    from stages.languages import CODE, identify_language
    from stages.records import CorpusWriter, Document, read_corpus, write_report

    rejected: Counter[str] = Counter()
    rejected_examples: dict[str, str] = {}
    num_in, num_kept_bytes = 0, 0
    kept_by_language: Counter[str] = Counter()

    def judged() -> Iterator[tuple[Document, str | None]]:
        for document in read_corpus(ctx.store.get(inputs.corpus)):
            text = normalise(document.text)
            lang = CODE if document.lang == CODE else identify_language(text)
            cleaned = replace(document, text=text, lang=lang)
            yield cleaned, next((r for f in config.filters if (r := f.reject_reason(cleaned))), None)

    out = ctx.scratch / "corpus"
    writer = CorpusWriter(out)
    for document, reason in judged():
        num_in += 1
        if reason is None:
            writer.write(document)
            kept_by_language[document.lang] += 1
            num_kept_bytes += len(document.text.encode())
        else:
            rejected[reason] += 1
            rejected_examples.setdefault(reason, document.id)
    writer.close()
    num_kept = kept_by_language.total()
    assert num_in == num_kept + rejected.total(), "documents in = kept + rejected"
    if num_kept == 0:
        raise BadSpecError(
            f"corpus {inputs.corpus.short}: want at least one document that passes the filters, got {num_in} rejected "
            f"({', '.join(f'{reason}: {count}' for reason, count in rejected.most_common(3))}); "
            f"give other documents or change clean.filters"
        )
    write_report(
        out,
        {
            "documents_in": num_in,
            "documents_kept": num_kept,
            "rejected": dict(sorted(rejected.items())),
            "first_rejected_document": dict(sorted(rejected_examples.items())),
            "kept_by_language": dict(sorted(kept_by_language.items())),
        },
    )
    ctx.log_metric("clean/docs_in", num_in)
    ctx.log_metric("clean/docs_kept", num_kept)
    ctx.log_metric("clean/bytes_kept", num_kept_bytes)
    for reason, count in sorted(rejected.items()):
        ctx.log_metric(f"clean/docs_rejected/{reason}", count)
    return CleanOutputs(corpus=ctx.store.put(out, CleanCorpus))


STAGE = Stage(
    name="clean",
    config=CleanConfig,
    inputs=CleanInputs,
    outputs=CleanOutputs,
    run=run,
    metrics=("clean/docs_in", "clean/docs_kept", "clean/bytes_kept", "clean/docs_rejected/*"),
    headline=Headline("documents", before="clean/docs_in", after="clean/docs_kept"),
)
