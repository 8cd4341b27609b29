"""Every quiz on the built page, answered right and wrong with the keyboard alone."""

import base64
import json

import pytest

from test_site import CONTENT, SITE, open_page

pytestmark = pytest.mark.browser

QUIZZES = [page for page in CONTENT if 'class="ibrelu-quiz' in (SITE / page).read_text("utf-8")]


def settled(line, text):
    """Wait for a question's feedback and return it with its verdict."""
    line.evaluate(
        "async (node, text) => { for (let k = 0; k < 50 && node.textContent !== text; k++) "
        "await new Promise((go) => setTimeout(go, 20)); }",
        text,
    )
    return line.text_content(), "incorrect" not in line.get_attribute("class")


def plain(page, markup):
    return page.evaluate(
        "(markup) => Object.assign(document.createElement('p'), {innerHTML: markup}).textContent",
        markup,
    )


def test_there_is_a_quiz_on_most_pages():
    assert len(QUIZZES) >= 20


@pytest.mark.parametrize("path", QUIZZES)
def test_each_answer_gets_its_feedback_from_the_keyboard(chromium, address, path):
    visit = open_page(chromium, address, address + path)
    page = visit.page
    page.wait_for_selector(".ibrelu-quiz .Quiz")
    packed = page.locator("script[type='application/json'][id^='quiz']").text_content()
    questions = json.loads(base64.b64decode(packed))
    boxes = page.locator(".ibrelu-quiz .Quiz").all()
    assert len(boxes) == len(questions)
    for box, question in zip(boxes, questions, strict=True):
        line = box.locator(".Feedback")
        if question["type"] == "numeric":
            values = [answer for answer in question["answers"] if "value" in answer]
            for answer in values:
                box.locator("input").focus()
                page.keyboard.type(str(answer["value"]))
                page.keyboard.press("Enter")
                expected = plain(page, answer["feedback"])
                assert settled(line, expected) == (expected, answer["correct"])
            box.locator("input").focus()
            page.keyboard.type("12345")
            page.keyboard.press("Enter")
            expected = plain(page, question["answers"][-1]["feedback"])
            assert settled(line, expected) == (expected, False)
            continue
        box.locator("input").first.focus()
        page.keyboard.press("Space")
        for number, answer in enumerate(question["answers"]):
            if number:
                page.keyboard.press("ArrowDown")
            expected = plain(page, answer["feedback"])
            assert settled(line, expected) == (expected, answer["correct"])
    assert visit.outside == []
    assert visit.errors == []
    page.context.close()
