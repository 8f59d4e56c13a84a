"""Small artifacts of the second half of the lifecycle: tokenizer, models, tokens, instructions, corpus."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch

from models.config import GlmConfig
from models.export import load_model, save_model
from models.glm import GlmForCausalLM, GlmForSequenceClassification
from models.token_shards import TokenDocument, TokenWriter
from models.tokenizer import ChatTemplate, load_tokenizer, save_tokenizer, train_tokenizer
from stages.records import Check, CorpusWriter, Document, Instruction, Turn, write_records
from stages.subject import Subject

TEXTS = (
    "The quick brown fox jumps over the lazy dog, and the dog sleeps on.",
    "def add(a, b):\n    return a + b\n",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002",
)
LANGS = ("en", "code", "zh")
QUALITY = {"accuracy": 0.75, "length_baseline_accuracy": 0.5, "margin": 1.0}


@cache
def trained_tokenizer() -> Any:
    """A byte-level BPE with a few merges."""
    return train_tokenizer(TEXTS, 300)


def tiny_config(**changes: Any) -> GlmConfig:
    """Two layers, four experts, widths that one INT4 group fits into."""
    shape = {
        "vocab_size": trained_tokenizer().get_vocab_size(), "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2,
        "expert_ffn_size": 64, "max_position_embeddings": 256, "eos_token_id": 0, "initializer_range": 0.1,
    }  # fmt: skip
    return GlmConfig(**(shape | changes))


def write_tokenizer(directory: Path) -> Path:
    """A tokenizer directory."""
    save_tokenizer(trained_tokenizer(), directory)
    return directory


def write_model(directory: Path, seed: int = 0, **changes: Any) -> Path:
    """A model directory with random weights."""
    torch.manual_seed(seed)
    tokenizer = load_tokenizer(write_tokenizer(directory.with_name(directory.name + "-tokenizer")))
    save_model(GlmForCausalLM(tiny_config(**changes)), tokenizer, directory)
    return directory


def write_reward_model(directory: Path, seed: int = 1) -> Path:
    """A reward model directory with random weights and a made-up accuracy."""
    torch.manual_seed(seed)
    tokenizer = load_tokenizer(write_tokenizer(directory.with_name(directory.name + "-tokenizer")))
    save_model(GlmForSequenceClassification(tiny_config(num_labels=1)), tokenizer, directory)
    (directory / "evaluation.json").write_text(json.dumps(QUALITY))
    return directory


def write_tokens(directory: Path, num_heldout: int = 6) -> Path:
    """A tokens directory: the texts, over and over."""
    template = ChatTemplate(load_tokenizer(write_tokenizer(directory.with_name(directory.name + "-tokenizer"))))
    writer = TokenWriter(directory, vocab_size=trained_tokenizer().get_vocab_size(), end_id=template.end_id)
    for split, count in (("train", 12), ("heldout", num_heldout)):
        documents = []
        for index in range(count):
            text, lang = TEXTS[index % 3] * (1 + index // 3), LANGS[index % 3]
            token_ids = template.encode_text(text)
            documents.append(TokenDocument(f"{split}-{index}", lang, "doc", len(text.encode()), token_ids))
        writer.add(split, documents)
    writer.close(num_documents_set_aside=2)
    return directory


def instructions(num_items: int, prefix: str) -> list[Instruction]:
    """Two tasks; the answers repeat."""
    made = []
    for index in range(num_items):
        task, lang = (("heading", "en"), ("arithmetic", "zh"))[index % 2]
        answer = str(index % 5)
        turns = (Turn(role="user", content=f"What is item {index}?"), Turn(role="assistant", content=answer))
        check = Check(kind="exact", answer=answer)
        item = Instruction(
            id=f"{prefix}-{index}", task=task, lang=lang, phase=0, messages=turns, doc_id="", check=check
        )
        made.append(item)
    return made


def write_instructions(directory: Path, num_heldout: int = 12) -> Path:
    """An instructions directory."""
    write_records(directory / "train.jsonl", instructions(20, "train"))
    write_records(directory / "heldout.jsonl", instructions(num_heldout, "heldout"))
    return directory


def write_corpus(directory: Path) -> Path:
    """A corpus directory."""
    writer = CorpusWriter(directory)
    for index, (text, lang) in enumerate(zip(TEXTS, LANGS, strict=True)):
        writer.write(Document(f"d{index}", text, f"pip:demo/{index}", "MIT", lang, "doc"))
    writer.close()
    (directory / "report.json").write_text(json.dumps({"documents": 3}))
    return directory


def tiny_subject(root: Path, **changes: Any) -> Subject:
    """A random model with everything that it is measured on."""
    model_dir = write_model(root / "model")
    settings: dict[str, Any] = {"max_new_tokens": 8, **changes}
    return Subject(
        model=load_model(model_dir),
        template=ChatTemplate(load_tokenizer(model_dir)),
        tokens_dir=write_tokens(root / "tokens"),
        instructions_dir=write_instructions(root / "instructions"),
        **settings,
    )
