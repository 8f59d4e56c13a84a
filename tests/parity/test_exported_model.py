"""The generated modelling file computes what the repository computes, where the repository is not there."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from models.export import save_model
from models.quantized import quantize_model
from tests.support.tiny_glm import tiny_glm, tiny_reward_model

TOKENS = torch.arange(12).view(2, 6)
STRANGER = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
tokens = torch.arange(12).view(2, 6)
for directory, result in zip(sys.argv[1::2], sys.argv[2::2]):
    auto = AutoModelForSequenceClassification if "reward" in directory else AutoModelForCausalLM
    model = auto.from_pretrained(directory, trust_remote_code=True)
    assert "transformers_modules" in type(model).__module__
    torch.save(model(tokens).logits.detach(), result)
"""


def test_a_process_that_never_saw_this_repository_computes_bitwise_equal_logits(tmp_path: Path) -> None:
    models = {
        "tied": tiny_glm(qk_norm=True, num_dense_layers=1),
        "untied": tiny_glm(tie_word_embeddings=False),
        "int4": quantize_model(tiny_glm(), bits=4, group_size=16),
        "int8": quantize_model(tiny_glm(), bits=8),
        "reward": tiny_reward_model(),
    }
    arguments = []
    for name, model in models.items():
        save_model(model, None, tmp_path / name)
        arguments += [str(tmp_path / name), str(tmp_path / f"{name}.pt")]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = os.environ | {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-I", "-c", STRANGER, *arguments]
    done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "newly initialized" not in done.stderr and "quantization" not in done.stderr
    for name, model in models.items():
        assert torch.load(tmp_path / f"{name}.pt").equal(model(TOKENS).logits), name
