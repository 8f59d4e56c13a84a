"""Preferences: pairs of a better and a worse answer to one prompt.

Chosen is an instruction's checked answer, rejected an answer that the SFT model sampled and that the check judged
wrong; training instructions give training pairs, held-out ones held-out pairs. Pairs of a user's file join them. With
`balance_lengths`, "better is longer" and "better is shorter" are equally frequent at every length difference, so that
length alone predicts nothing (ChatGLM-RLHF, section 3.2). With `balance_answers`, an answer that is right somewhere (a
label) is chosen as often as it is rejected, so that the label alone predicts nothing (stages.pair_balance).

Artifact `preferences`: train.jsonl and heldout.jsonl of stages.records.Preference, report.json with every count.
"""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from infra.artifacts import Instructions, Model, Preferences
from infra.errors import BadSpecError
from stages.answers import evenly, is_correct
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.pair_balance import balanced_by_label, balanced_by_length
from stages.pair_file import file_sha256, read_pair_file
from stages.records import Instruction, Preference, is_held_out, read_records, write_records, write_report


class PreferencesConfig(StageModel):
    """Everything about one collection of pairs."""

    num_train_prompts: PositiveInt = Field(default=3200, description="training instructions to sample answers for")
    num_heldout_prompts: PositiveInt = Field(default=700, description="held-out instructions to sample answers for")
    temperatures: tuple[PositiveFloat, ...] = Field(
        default=(1.0, 1.5), min_length=1, description="one answer to each prompt is sampled at each temperature"
    )
    max_prompt_tokens: PositiveInt = Field(default=224, description="longest prompt, in tokens; others are left out")
    max_new_tokens: PositiveInt = Field(
        default=24, description="longest answer, in tokens; unfinished ones are dropped"
    )
    batch_size: PositiveInt = Field(default=64, description="answers sampled at a time")
    balance_answers: bool = Field(
        default=True, description="an answer that is right somewhere in its task wins as often as it loses"
    )
    balance_lengths: bool = Field(default=True, description="make 'longer is better' and 'shorter is better' equal")
    pairs: Path | None = Field(default=None, description="user's .jsonl or .parquet file of prompt, chosen, rejected")
    pairs_sha256: str | None = Field(default=None, description="digest of that file; filled in, it makes the key")
    pairs_heldout_ratio: float = Field(default=0.2, ge=0, lt=1, description="share of the file's pairs held out, 0-1")

    @model_validator(mode="before")
    @classmethod
    def _digest_of_the_pairs(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("pairs") and not values.get("pairs_sha256"):
            return {**values, "pairs_sha256": file_sha256(Path(values["pairs"]))}
        return values


class PreferencesInputs(StageModel):
    """What preferences reads."""

    model: Model
    instructions: Instructions


class PreferencesOutputs(StageModel):
    """What preferences writes."""

    preferences: Preferences


def run(config: PreferencesConfig, inputs: PreferencesInputs, ctx: StageContext) -> PreferencesOutputs:
    """Sample, judge, balance, join with the file's pairs, write."""
    import torch

    from models.export import load_model
    from models.tokenizer import ChatTemplate, load_tokenizer

    torch.use_deterministic_algorithms(True)
    model_dir, records_dir = ctx.store.get(inputs.model), ctx.store.get(inputs.instructions)
    sampler = _Sampler(config, load_model(model_dir), ChatTemplate(load_tokenizer(model_dir)), ctx)
    from_file = _pairs_of_the_file(config, sampler.counts)
    directory = ctx.scratch / "preferences"
    numbers = {}
    for split, num_prompts in (("train", config.num_train_prompts), ("heldout", config.num_heldout_prompts)):
        instructions = read_records(records_dir / f"{split}.jsonl", Instruction)
        pairs = sampler.pairs(evenly(instructions, num_prompts), split)
        pairs += from_file[split]
        if not pairs:
            raise BadSpecError(
                f"preferences: want at least one {split} pair, got 0 ({dict(sampler.counts)}); raise "
                f"preferences.num_{split}_prompts or .temperatures {config.temperatures}"
            )
        numbers[split] = write_records(directory / f"{split}.jsonl", pairs)
        ctx.log_metric(f"preferences/pairs/{split}", numbers[split])
        ctx.log(f"{split}: {numbers[split]} pairs, {len(from_file[split])} of them from the file")
    ctx.log_metric("preferences/pairs", sum(numbers.values()))
    for name, count in sorted(sampler.counts.items()):
        ctx.log_metric(f"preferences/{name}", count)
    write_report(directory, {"pairs": numbers, "counts": dict(sorted(sampler.counts.items()))})
    return PreferencesOutputs(preferences=ctx.store.put(directory, Preferences))


class _Sampler:
    """Samples answers and makes pairs of the wrong ones."""

    def __init__(self, config: PreferencesConfig, model: Any, template: Any, ctx: StageContext) -> None:
        import torch

        self.config = config
        self.model = model
        self.template = template
        self.ctx = ctx
        self.counts: Counter[str] = Counter()
        self.generator = torch.Generator(device=model.device).manual_seed(ctx.seed)

    def pairs(self, instructions: Sequence[Instruction], split: str) -> list[Preference]:
        """Distinct pairs, in the order of the instructions."""
        found: dict[tuple[str, str], Preference] = {}
        for position, answer in self._answers(instructions, split):
            instruction = instructions[position]
            chosen = instruction.messages[-1].content.strip()
            reason = self._reason_to_drop(instruction, answer, (instruction.id, answer or "") in found)
            self.counts[f"samples/{reason or 'wrong'}"] += 1
            if reason is None and answer is not None:
                found[instruction.id, answer] = Preference(
                    id=f"{instruction.id}-{len(found)}",
                    task=instruction.task,
                    lang=instruction.lang,
                    prompt=instruction.messages[:-1],
                    chosen=chosen,
                    rejected=answer,
                    origin="sampled",
                )
        return self._balanced(list(found.values()), instructions, random.Random(f"{self.ctx.seed} {split}"))

    def _balanced(
        self, pairs: list[Preference], instructions: Sequence[Instruction], rng: random.Random
    ) -> list[Preference]:
        """The pairs in which neither the answer's text nor its length gives the better one away."""
        right = {(one.task, one.lang, one.messages[-1].content.strip()) for one in instructions}
        is_label = [self.config.balance_answers and (p.task, p.lang, p.rejected) in right for p in pairs]
        labels = [i for i in range(len(pairs)) if is_label[i]]
        other = [i for i in range(len(pairs)) if not is_label[i]]
        kept = balanced_by_label([_label_edge(pairs[i]) for i in labels])
        self.counts["dropped/unbalanced_answer"] += len(labels) - len(kept)
        labels = [labels[i] for i in kept]
        if self.config.balance_lengths:
            gains = [self._num_tokens(pairs[i].chosen) - self._num_tokens(pairs[i].rejected) for i in other]
            kept = balanced_by_length(gains, rng)
            self.counts["dropped/unbalanced_length"] += len(other) - len(kept)
            other = [other[i] for i in kept]
        return [pairs[i] for i in sorted(labels + other)]

    def _answers(self, instructions: Sequence[Instruction], split: str) -> list[tuple[int, str | None]]:
        """(instruction's position, answer or None if it did not end), sorted by position."""
        from models.generate import generate

        prompts = [self.template.encode(instruction.prompt) for instruction in instructions]
        fitting = [i for i in range(len(prompts)) if len(prompts[i]) <= self.config.max_prompt_tokens]
        self.counts["dropped/prompt_longer_than_max"] += len(prompts) - len(fitting)
        order = sorted(fitting, key=lambda i: (len(prompts[i]), i))
        num_samples = len(order) * len(self.config.temperatures)
        answers: list[tuple[int, str | None]] = []
        for temperature, start in product(self.config.temperatures, range(0, len(order), self.config.batch_size)):
            batch = order[start : start + self.config.batch_size]
            generations = generate(
                self.model,
                [prompts[i] for i in batch],
                max_new_tokens=self.config.max_new_tokens,
                stop_ids=self.template.stop_ids,
                temperature=temperature,
                generator=self.generator,
            )
            for i, generation in zip(batch, generations, strict=True):
                ended = generation.finished == "stop"
                answers.append((i, self.template.parse(generation.token_ids) if ended else None))
            self.ctx.progress(len(answers), num_samples, f"{split} answers")
        return sorted(answers, key=lambda item: item[0])

    def _reason_to_drop(self, instruction: Instruction, answer: str | None, is_repeated: bool) -> str | None:
        if answer is None:
            return "unfinished"
        if not answer:
            return "empty"
        if is_correct(instruction.check, answer) or answer == instruction.messages[-1].content.strip():
            return "right"
        return "repeated" if is_repeated else None

    def _num_tokens(self, text: str) -> int:
        return len(self.template.encode_text(text))


def _label_edge(pair: Preference) -> tuple[str, str]:
    """From the rejected to the chosen answer, each with its task: the same word elsewhere is another label."""
    return f"{pair.task}/{pair.lang}/{pair.rejected}", f"{pair.task}/{pair.lang}/{pair.chosen}"


def _pairs_of_the_file(config: PreferencesConfig, counts: Counter[str]) -> dict[str, list[Preference]]:
    splits: dict[str, list[Preference]] = {"train": [], "heldout": []}
    if config.pairs is None:
        return splits
    if file_sha256(config.pairs) != config.pairs_sha256:
        raise BadSpecError(
            f"{config.pairs}: want the file with sha256 {config.pairs_sha256!r}, got another content; "
            "leave preferences.pairs_sha256 out and run again"
        )
    pairs, dropped = read_pair_file(config.pairs)
    for pair in pairs:
        splits["heldout" if is_held_out(pair.id, config.pairs_heldout_ratio) else "train"].append(pair)
    counts["file/pairs"] += len(pairs)
    for reason, count in dropped.items():
        counts[f"file/dropped/{reason}"] += count
    return splits


STAGE = Stage(
    name="preferences",
    config=PreferencesConfig,
    inputs=PreferencesInputs,
    outputs=PreferencesOutputs,
    run=run,
    metrics=(
        "preferences/pairs",
        "preferences/pairs/*",
        "preferences/samples/*",
        "preferences/dropped/*",
        "preferences/file/*",
    ),
    headline=Headline(label="preference pairs", after="preferences/pairs"),
)
