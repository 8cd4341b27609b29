import numpy as np
import pytest

from ibrelu.tables import table


def test_numbers_are_written_with_four_digits():
    shown = table(["a", "b", "c"], [[1 / 3, 12_345, np.float64(1e-9)], [True, "x", np.int64(7)]])
    assert shown.rows == (("0.3333", "12,345", "1e-09"), ("True", "x", "7"))


def test_html_escapes_its_cells_and_names_its_columns():
    page = table(["λ & μ"], [["<b>"]])._repr_html_()
    assert '<th scope="col">λ &amp; μ</th>' in page
    assert "<td>&lt;b&gt;</td>" in page


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="a row has 1 cells for 2 headings"):
        table(["a", "b"], [["x"]])
