from stages.rewards.answer_check import AnswerCheck
from stages.rewards.base import Answer
from tests.support.tiny_release import instructions


def test_only_a_right_answer_that_ended_is_rewarded():
    (one,) = instructions(1, "x")
    right = one.check.answer
    answers = [Answer(one, right, ended=True), Answer(one, right, ended=False), Answer(one, "wrong", ended=True)]
    assert AnswerCheck(right=2.0, wrong=-1.0).rewards(answers, None) == [2.0, -1.0, -1.0]
