"""Every quiz is complete, and its stored form does not change from run to run."""

import re

import pytest

from ibrelu.quiz import names, quiz


@pytest.mark.parametrize("name", names())
def test_a_quiz_asks_three_to_five_questions(name):
    assert 3 <= len(quiz(name).questions) <= 5


@pytest.mark.parametrize("name", names())
def test_each_answer_right_or_wrong_explains_itself(name):
    for question in quiz(name).questions:
        assert question["type"] in {"multiple_choice", "numeric"}
        answers = question["answers"]
        assert sum(bool(a.get("correct")) for a in answers) == 1, question["question"]
        for answer in answers:
            assert len(answer["feedback"]) > 15, answer
        if question["type"] == "numeric":
            assert answers[-1]["type"] == "default"
        else:
            assert len({a["answer"] for a in answers}) == len(answers) >= 3


@pytest.mark.parametrize("name", names())
def test_quiz_text_needs_no_formula_typesetting(name):
    assert "$" not in str(quiz(name).questions)


def test_a_quiz_is_stored_in_the_same_bytes_every_time():
    first, second = (quiz("single-neuron")._repr_mimebundle_() for _ in range(2))
    assert first == second


def test_right_answers_cannot_be_read_in_the_page_source():
    page = quiz("single-neuron")._repr_mimebundle_()["text/html"]
    assert "vanishes for ever" not in page
    assert not re.search(r'"correct":\s*true', page)


def test_a_quiz_outside_html_is_a_plain_list():
    text = quiz("single-neuron")._repr_mimebundle_()["text/plain"]
    assert text.startswith("1. One ReLU neuron")
    assert "<sub>" not in text


def test_an_unknown_quiz_names_the_ones_there_are():
    with pytest.raises(ValueError, match=r"no quiz named 'nope'; there are: .*single-neuron"):
        quiz("nope")
