"""Serve one model directory over HTTP: joins the engine (models) and the server (infra).

`python -m stages.serving --model DIR` is the process that `glmflow serve` and `glmflow chat` start. It prints
`listening on URL` once it answers, and ends with exit code 0 on SIGTERM after the running answers are finished.
Full-precision and quantized directories are served alike.
"""

import argparse
import hashlib
import json
import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from infra.credentials import api_key, is_loopback
from infra.errors import BadSpecError
from infra.process import die_with_parent
from infra.server.protocol import Access, ChatTurn, FinishReason, OnToken, Sampling
from infra.settings import go_offline, read_settings
from stages.__main__ import EXIT_BAD_SPEC, EXIT_DONE
from stages.execution import limit_threads

READY_PREFIX = "listening on "
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8000
_FINGERPRINT_CHARS = 12


class _AnswerEndedError(Exception):
    """Raised through the generation when nobody wants its next token."""


class GlmEngine:
    """A model directory as the server's engine (infra.server.protocol.TextEngine)."""

    def __init__(self, directory: Path, model_id: str = "glmflow") -> None:
        from models.export import WEIGHTS_NAME, load_model
        from models.tokenizer import ChatTemplate, load_tokenizer

        self.model = load_model(directory)
        self.template = ChatTemplate(load_tokenizer(directory))
        generation = json.loads((directory / "generation_config.json").read_text(encoding="utf-8"))
        self.stop_ids = frozenset(generation["eos_token_id"])
        self.model_id = model_id
        with (directory / WEIGHTS_NAME).open("rb") as file:
            self.weights_sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        self.fingerprint = f"fp_{self.weights_sha256[:_FINGERPRINT_CHARS]}"
        self.vocab_size = int(self.model.config.vocab_size)
        self.max_context_tokens = int(self.model.config.max_position_embeddings)
        self.default_temperature = (
            float(generation.get("temperature", 1.0)) if generation.get("do_sample", True) else 0.0
        )
        self.default_top_p = float(generation.get("top_p", 1.0))

    def encode_chat(self, turns: Sequence[ChatTurn]) -> list[int]:
        """The conversation in the model's chat format, up to where the assistant answers."""
        return self.template.encode([{"role": turn.role, "content": turn.content} for turn in turns])

    def encode_text(self, text: str) -> list[int]:
        """A document's beginning: what comes before it in training is a document end."""
        return [self.template.end_id, *self.template.encode_text(text)]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens."""
        return self.template.decode(token_ids)

    def generate(self, prompt_ids: Sequence[int], sampling: Sampling, on_token: OnToken) -> FinishReason:
        """One answer; the same code as everywhere else (models.generate)."""
        import torch

        from models.generate import generate

        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed % 2**63
        finish: FinishReason = "length"

        def forward(_row_idx: int, token_id: int, logprob: float) -> None:
            nonlocal finish
            if token_id in self.stop_ids:
                finish = "stop"
            elif not on_token(token_id, logprob):
                raise _AnswerEndedError

        with suppress(_AnswerEndedError):
            generate(
                self.model,
                [list(prompt_ids)],
                max_new_tokens=sampling.max_new_tokens,
                stop_ids=self.stop_ids,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                generator=torch.Generator().manual_seed(seed),
                on_token=forward,
            )
        return finish


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stages.serving", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="model directory, full precision or quantized")
    parser.add_argument("--host", default=DEFAULT_HOST, help="address to listen on")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 takes a free one")
    parser.add_argument("--name", default="glmflow", help="the model's name in the API")
    parser.add_argument("--without-key", action="store_true", help="let other machines in without GLMFLOW_API_KEY, too")
    args = parser.parse_args(argv)
    die_with_parent()
    go_offline()
    try:
        settings = read_settings()
        access = Access(api_key(settings), settings.max_body_bytes, settings.metrics_open)
        check_host(args.host, has_key=bool(access.key) or args.without_key)
    except BadSpecError as error:
        _complain(str(error))
        return EXIT_BAD_SPEC
    limit_threads(settings.threads)
    return run(args.model, args.host, args.port, args.name, settings.threads, access)


def check_host(host: str, *, has_key: bool) -> None:
    """Raise BadSpecError for an address that other machines reach, when nothing keeps them out."""
    if not has_key and not is_loopback(host):
        raise BadSpecError(
            f"address {host}: want GLMFLOW_API_KEY or GLMFLOW_API_KEY_FILE set where other machines can reach it, got "
            f"neither; set one, or say --without-key"
        )


def run(directory: Path, host: str, port: int, name: str, threads: int, access: Access) -> int:
    """Load the model and answer requests."""
    from infra.server.app import create_app
    from infra.server.process import bind, serve, url_of

    try:
        listener = bind(host, port)  # before the model is loaded: a taken port is told at once
    except (OSError, OverflowError) as error:
        _complain(f"address {host}:{port}: want a free one, got {error}; choose another with --port")
        return EXIT_BAD_SPEC
    with listener:
        import torch
        from safetensors import SafetensorError

        torch.set_num_threads(threads)
        try:
            engine = GlmEngine(directory, name)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            _complain(f"model {directory}: want a model directory, got {error}")
            return EXIT_BAD_SPEC
        serve(create_app(engine, access), listener, lambda: _tell(_ready_lines(url_of(listener), name)))
    return EXIT_DONE


def _ready_lines(url: str, name: str) -> str:
    return f"{READY_PREFIX}{url}\nOpenAI base URL {url}/v1, model {name!r}; Ctrl-C stops"


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _complain(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
