"""Small corpora in a store of their own, and running one data stage on them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from infra.artifacts import ArtifactRef
from infra.stores.local import LocalStore
from stages.contract import Stage, StageContext, StageModel
from stages.execution import read_history
from stages.records import CorpusWriter, Document

Ref = TypeVar("Ref", bound=ArtifactRef)
ENGLISH = "The committee read the long report twice and asked for another meeting in spring, number {}."
CHINESE = "这家酒店的房间很干净，服务员也非常热情，下次来还会选择住在这里，编号是{}。"
CODE = "def add_{0}(left, right):\n    total = left + right + {0}\n    return total\n"


def document(text: str, **fields: Any) -> Document:
    """A document whose id follows from its text."""
    known = {"source": "test 1", "license": "MIT", "lang": "und", "domain": "doc", "meta": {}} | fields
    return Document(id=known.pop("id", f"{hash_of(text):016x}"), text=text, **known)


def hash_of(text: str) -> int:
    """The same in every process, unlike hash()."""
    return int.from_bytes(text.encode(), "little") % (2**61 - 1)


def mixed_documents(count: int) -> list[Document]:
    """As many English, Chinese and code documents, each different from the others."""
    english = [document(ENGLISH.format(i) * (1 + i % 3), meta={"title": f"page {i}"}) for i in range(count)]
    chinese = [document(CHINESE.format(i), domain="review", meta={"label": "positive"}) for i in range(count)]
    code = [document(CODE.format(i) * 2, domain="code", lang="code") for i in range(count)]
    return [*english, *chinese, *code]


class StageBench:
    """A store, a context and what a stage left in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = LocalStore(root / "store")
        self._count = 0

    def put_corpus(self, documents: Iterable[Document], ref_type: type[Ref]) -> Ref:
        """Store documents as a corpus artifact."""
        self._count += 1
        writer = CorpusWriter(self.root / f"corpus-{self._count}")
        for each in documents:
            writer.write(each)
        writer.close()
        return self.store.put(self.root / f"corpus-{self._count}", ref_type)

    def run(self, stage: Stage[Any, Any, Any], config: StageModel, inputs: StageModel) -> Any:
        """Run a stage in a fresh context that accepts its declared metrics only."""
        self._count += 1
        self.ctx = StageContext(self.store, self.root / f"work-{self._count}", declared_metrics=stage.metrics)
        self.ctx.scratch.mkdir(parents=True)
        return stage.run(config, inputs, self.ctx)

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the latest run."""
        return {point.name: point.value for point in read_history(self.ctx.metrics_path)}
