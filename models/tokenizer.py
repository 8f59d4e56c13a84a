"""The tokenizer and the one chat template that SFT, reward model, PPO, evaluation and serving share.

Byte-level BPE, so every text has ids and decodes to itself. Special tokens are GLM's, with ChatGLM3's roles, and are
never produced by encoding text: a user who writes `<|assistant|>` gets the ids of those thirteen characters.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypedDict

from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as BackendTokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

END = "<|endoftext|>"  # end of a document and of an assistant turn; also the padding token
MASK, GMASK, SMASK = "[MASK]", "[gMASK]", "[sMASK]"
SOP, EOP = "<sop>", "<eop>"
ROLES = ("system", "user", "assistant", "observation")
SPECIAL_TOKENS = (END, MASK, GMASK, SMASK, SOP, EOP, *(f"<|{role}|>" for role in ROLES))
STOP_TOKENS = (END, "<|user|>", "<|observation|>")
CHAT_TEMPLATE_FILE = "chat_template.jinja"

# Words with one leading space or sign, single Han ideographs in runs, digits in threes, punctuation, line ends.
_PIECES = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


class Message(TypedDict):
    """One turn of a conversation."""

    role: str
    content: str


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> BackendTokenizer:
    """A byte-level BPE trained on `texts`, special tokens first; it may have fewer than `vocab_size` entries.

    Raises ValueError when `vocab_size` leaves no room for the 256 bytes and the special tokens.
    """
    floor = len(SPECIAL_TOKENS) + 256
    if vocab_size < floor:
        raise ValueError(f"vocab_size: want at least {floor} (special tokens and bytes), got {vocab_size}; raise it")
    tokenizer = BackendTokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save_tokenizer(tokenizer: BackendTokenizer, directory: Path) -> None:
    """Write a Hugging Face fast tokenizer with the chat template."""
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=list(SPECIAL_TOKENS[1:]),
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = Path(__file__).with_name(CHAT_TEMPLATE_FILE).read_text(encoding="utf-8")
    fast.save_pretrained(directory)


def load_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    """The tokenizer saved in `directory`. Raises ValueError when its special tokens are not ours."""
    tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(directory)
    missing = [t for t in SPECIAL_TOKENS if tokenizer.convert_tokens_to_ids(t) is None]
    if missing:
        raise ValueError(f"tokenizer {directory}: want GLM's special tokens, got none for {', '.join(missing)}")
    return tokenizer


class ChatTemplate:
    """Conversation to token ids and back, for one tokenizer.

    Layout: `[gMASK]<sop>` then for each message `<|role|>`, a line end, the content without surrounding space; an
    assistant message ends with `<|endoftext|>`, which is inside the loss.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._backend = BackendTokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._backend.encode_special_tokens = True  # special tokens in a text are text
        self._ids = dict(zip(SPECIAL_TOKENS, tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS)), strict=True))
        self._newline = self.encode_text("\n")
        self.stop_ids = tuple(self._ids[token] for token in STOP_TOKENS)
        self.end_id, self.pad_id = self._ids[END], self._ids[END]

    def token_id(self, token: str) -> int:
        """The id of a special token."""
        return int(self._ids[token])

    def encode_text(self, text: str) -> list[int]:
        """Token ids of plain text; never a special token."""
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids, special tokens left out."""
        text: str = self._backend.decode(list(token_ids), skip_special_tokens=True)
        return text

    def encode(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> list[int]:
        """Token ids of a conversation; with the generation prompt the model's answer comes next."""
        ids = self.encode_for_training(messages)[0]
        return [*ids, self._ids["<|assistant|>"], *self._newline] if add_generation_prompt else ids

    def encode_for_training(self, messages: Sequence[Message]) -> tuple[list[int], list[bool]]:
        """(token ids, loss_mask): True on assistant content and its end token, the positions that are targets."""
        ids = [self._ids[GMASK], self._ids[SOP]]
        loss_mask = [False, False]
        for position, message in enumerate(messages):
            role = message["role"]
            if role not in ROLES:
                raise ValueError(f"message {position}: want role {', '.join(ROLES)}, got {role!r}; rename the role")
            head = [self._ids[f"<|{role}|>"], *self._newline]
            body = self.encode_text(message["content"].strip())
            if role == "assistant":
                body.append(self.end_id)
            ids += head + body
            loss_mask += [False] * len(head) + [role == "assistant"] * len(body)
        return ids, loss_mask

    def parse(self, token_ids: Sequence[int]) -> str:
        """The answer in generated ids: the text before the first stop token."""
        stops = [i for i, token_id in enumerate(token_ids) if token_id in self.stop_ids]
        return self.decode(token_ids[: stops[0]] if stops else token_ids).strip()
