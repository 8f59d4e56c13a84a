"""Laws of the library task."""

from stages.tasks.library import LibraryTask
from tests.support.corpora import document

DOCUMENTS = [
    document(f"{name}.function_{i}(x)\n\nA page of {name.upper()} about {i}.", domain="api", source=f"{name} 1.0")
    for name in ("alpha", "beta", "gamma", "delta")
    for i in range(5)
]
TASK = LibraryTask(min_documents=5)


def test_the_answer_is_the_source_and_is_among_the_choices_but_not_in_the_passage():
    source_of = {d.id: d.source.split()[0] for d in DOCUMENTS}
    items = list(TASK.build(DOCUMENTS))
    assert len(items) == len(DOCUMENTS)
    for item in items:
        passage, question = item.messages[0].content.rsplit("\n\n", 1)
        assert item.check.answer == source_of[item.doc_id]
        choices = question.removeprefix("Which library is this from: ").rstrip("?").split(", ")
        assert len(set(choices)) == 3
        assert item.check.answer in choices
        assert item.check.answer not in passage.lower()


def test_libraries_come_in_turn():
    answers = [item.check.answer for item in TASK.build(DOCUMENTS)]
    assert answers[:4] == ["alpha", "beta", "delta", "gamma"]


def test_libraries_with_too_few_documents_are_not_asked_about():
    assert {item.check.answer for item in TASK.build(DOCUMENTS[:-1])} == {"alpha", "beta", "gamma"}
    assert list(TASK.build(DOCUMENTS[:10])) == []


def test_the_same_documents_give_the_same_instructions():
    assert list(TASK.build(DOCUMENTS)) == list(TASK.build(DOCUMENTS))
