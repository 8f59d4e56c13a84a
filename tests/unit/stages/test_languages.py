"""Laws of language identification."""

import pytest

from stages.languages import UNKNOWN, identify_language
from tests.support.corpora import CHINESE, ENGLISH

SENTENCES = {
    "en": ENGLISH,
    "zh": CHINESE,
    "ja": "このレポートは二回読まれ、春にもう一度会議を開くことになりました。",
    "ko": "위원회는 긴 보고서를 두 번 읽고 봄에 다시 회의를 열기로 했습니다.",
    "ru": "Комитет дважды прочитал длинный доклад и попросил о новой встрече весной.",
    "el": "Η επιτροπή διάβασε δύο φορές την έκθεση και ζήτησε νέα συνάντηση.",
    "ar": "قرأت اللجنة التقرير الطويل مرتين وطلبت اجتماعا آخر في الربيع.",
    "he": "הוועדה קראה את הדוח הארוך פעמיים וביקשה פגישה נוספת באביב.",
    "hi": "समिति ने लंबी रिपोर्ट दो बार पढ़ी और वसंत में एक और बैठक मांगी।",
    "th": "คณะกรรมการอ่านรายงานยาวสองครั้งและขอให้มีการประชุมอีกครั้ง",
    "de": "Der Ausschuss hat den langen Bericht zweimal gelesen und eine weitere Sitzung verlangt.",
    "fr": "Le comité a lu deux fois le long rapport et a demandé une autre réunion au printemps.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_is_in_its_language(language):
    assert identify_language(SENTENCES[language]) == language


@pytest.mark.parametrize("text", ["", " \n", "12345 67 !?", "。，！", "\U0001f600\U0001f600"])
def test_a_text_without_letters_has_no_language(text):
    assert identify_language(text) == UNKNOWN


def test_chinese_with_commands_and_names_in_it_is_chinese():
    assert identify_language("使用 ls 命令可以列出目录内容，参数 -a 表示显示隐藏文件。") == "zh"


def test_english_that_quotes_a_chinese_word_is_english():
    assert identify_language(ENGLISH.format("北京") * 2) == "en"


def test_a_sign_that_is_not_ascii_does_not_change_the_language():
    assert identify_language(ENGLISH + " \u2014 \u201cyes\u201d") == identify_language(ENGLISH) == "en"
