"""An evaluation artifact on disk: `evaluation.json` (figures and what they are of), `items.json` (each item's) and
`samples.json` (a few answers, to be read)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from infra.errors import BadSpecError
from stages.samples import SAMPLES, SAMPLES_NAME, Samples

EVALUATION_NAME, ITEMS_NAME = "evaluation.json", "items.json"
Items = Mapping[str, float | str]


class EvaluationFile(BaseModel):
    """`evaluation.json`. Figures made with another tokenizer, chat template or reward model cannot be compared."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    model: str
    kind: str
    reward_model: str | None
    tokenizer_sha256: str
    template_sha256: str
    metrics: dict[str, float]


@dataclass(frozen=True)
class EvaluatedModel:
    """One evaluation artifact, read; `items` maps what was measured to item ids and values."""

    about: EvaluationFile
    items: Mapping[str, Items]
    samples: Samples = ()

    def metric(self, name: str) -> float:
        """One figure. Raises BadSpecError if the evaluation did not measure it."""
        if name not in self.about.metrics:
            raise BadSpecError(
                f"evaluation of {self.about.kind}:{self.about.model[:12]}: want the metric {name!r}, got none; "
                "evaluate with the benchmark that measures it"
            )
        return self.about.metrics[name]


def write_evaluation(directory: Path, evaluated: EvaluatedModel) -> None:
    """Write the artifact's files."""
    directory.mkdir(parents=True)
    write_json(directory / EVALUATION_NAME, evaluated.about.model_dump())
    write_json(directory / ITEMS_NAME, evaluated.items)
    write_json(directory / SAMPLES_NAME, SAMPLES.dump_python(evaluated.samples, mode="json"))


def read_evaluation(directory: Path) -> EvaluatedModel:
    """Read the artifact's files."""
    about = EvaluationFile.model_validate_json((directory / EVALUATION_NAME).read_bytes())
    items = json.loads((directory / ITEMS_NAME).read_text(encoding="utf-8"))
    path = directory / SAMPLES_NAME  # not there in an evaluation from before samples were kept
    return EvaluatedModel(about, items, SAMPLES.validate_json(path.read_bytes()) if path.is_file() else ())


def write_json(path: Path, value: Any) -> None:
    """JSON with sorted keys: the same value gives the same bytes."""
    path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
