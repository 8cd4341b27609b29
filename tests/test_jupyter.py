"""A notebook with an explorer in a real JupyterLab: live widgets, their figure follows."""

import base64
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

import nbformat
import pytest

pytestmark = pytest.mark.browser

SETUP = """\
from ibrelu.explore import explore
from ibrelu.figures import canvas

def line(slope, shift):
    figure, axes = canvas(margins=(0.6, 0.5, 0.1, 0.1))
    axes.plot([0, 1], [shift, shift + slope])
    axes.set(xlim=(0, 1), ylim=(-1, 5))
    return figure, f"Slope {slope:.4g}, shift {shift:.4g}: it ends at {slope + shift:.4g}."
"""
CALL = """\
explore(line, title="A line", alt="A line that is steeper as the slope grows.",
        continuous=("shift",), slope=[1, 2, 3], shift=[0.0, 1.0])
"""
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Address and folder of a running JupyterLab, with the notebook in it."""
    pytest.importorskip("jupyterlab")
    folder = tmp_path_factory.mktemp("lab")
    cells = [nbformat.v4.new_code_cell(text) for text in (SETUP, CALL)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, folder / "line.ipynb")
    notebook.cells[1].outputs = [nbformat.v4.new_output("display_data", data=static_bundle())]
    nbformat.write(notebook, folder / "stored.ipynb")
    port = free_port()
    environment = {k: v for k, v in os.environ.items() if k != "IBRELU_EXPLORER"}
    environment |= {
        name: str(folder / name.lower())
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}",
        "--ServerApp.ip=127.0.0.1", "--IdentityProvider.token=", f"--ServerApp.root_dir={folder}",
        "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.workspaces_dir=" + str(folder / "workspaces"),
        "--LabApp.user_settings_dir=" + str(folder / "settings"),
    ]  # fmt: skip
    with open(folder / "log.txt", "wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(address + "api/status", timeout=2)
                break
            except OSError:
                assert server.poll() is None, (folder / "log.txt").read_text()
                time.sleep(0.25)
        else:
            pytest.fail("JupyterLab did not start:\n" + (folder / "log.txt").read_text())
        yield address, folder
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="module")
def page(chromium, lab):
    """The notebook, opened and run from the menu."""
    from playwright.sync_api import TimeoutError as NotYet

    address, _ = lab
    context = chromium.new_context(viewport={"width": 1280, "height": 1200})
    page = context.new_page()
    page.goto(f"{address}lab/tree/line.ipynb?reset", timeout=120_000)
    page.locator(".jp-Notebook .jp-CodeCell").nth(1).wait_for(timeout=120_000)
    page.locator(".jp-NotebookPanel .jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for(
        timeout=120_000
    )
    # On a busy machine the menu can act before the kernel listens: then a reader clicks again.
    picture = page.locator(".ibrelu-explorer img")
    for _ in range(4):
        page.locator(".jp-Notebook .jp-CodeCell").first.click()
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        with contextlib.suppress(NotYet):
            picture.wait_for(timeout=40_000)
            break
    picture.wait_for(timeout=1_000)
    yield page
    context.close()


def shown(page):
    """The caption and the picture that the notebook shows."""
    source = page.locator(".ibrelu-explorer img").get_attribute("src")
    picture = base64.b64decode(source.partition("base64,")[2]).decode()
    return page.locator(".ibrelu-explorer [aria-live]").inner_text(), picture


def static_explorer():
    """What the built book shows: the same code, without a Jupyter server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IBRELU_EXPLORER", "static")
        names = {}
        exec(SETUP, names)
        exec("explorer = " + CALL, names)
    return names["explorer"]


def static_bundle():
    return static_explorer()._repr_mimebundle_()


def static_frame(**values):
    frame = static_explorer().frame(**values)
    return frame.caption, frame.svg


@pytest.fixture
def sliders(page):
    """The two live sliders, at their first values."""
    handles = page.locator(".ibrelu-explorer .noUi-handle")
    assert handles.count() == 2
    for handle in handles.all():
        handle.press("Home")
    page.get_by_text("Slope 1, shift 0:").wait_for()
    return handles


def test_the_live_figure_follows_its_sliders(page, sliders):
    assert shown(page) == static_frame(slope=1, shift=0.0)
    sliders.first.press("ArrowRight")
    page.get_by_text("Slope 2, shift 0:").wait_for()
    assert shown(page) == static_frame(slope=2, shift=0.0)


def test_a_continuous_slider_reaches_values_between_the_choices(page, sliders):
    sliders.nth(1).press("ArrowRight")
    page.get_by_text(re.compile(r"Slope 1, shift 0\.\d+:")).wait_for()
    caption, picture = shown(page)
    shift = float(re.search(r"shift ([\d.]+):", caption)[1])
    assert 0 < shift < 1
    assert (caption, picture) == static_frame(slope=1, shift=shift)


def test_the_live_notebook_holds_the_widget_alone(page, lab):
    page.keyboard.press("Control+s")
    for _ in range(40):
        notebook = json.loads((lab[1] / "line.ipynb").read_text("utf-8"))
        outputs = notebook["cells"][1].get("outputs", [])
        if outputs:
            break
        time.sleep(0.25)
    assert [set(output["data"]) for output in outputs] == [{WIDGET_VIEW, "text/plain"}]


def test_a_stored_explorer_stands_before_the_notebook_is_trusted(chromium, lab):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{lab[0]}lab/tree/stored.ipynb?reset", timeout=120_000)
    explorer = page.locator(".ibrelu-explorer")
    explorer.wait_for(timeout=120_000)
    assert explorer.locator("img").get_attribute("alt").startswith("A line that is steeper")
    assert explorer.locator("img").evaluate("img => img.decode().then(() => img.naturalWidth)") > 0
    assert "Slope 1, shift 0: it ends at 1." in explorer.inner_text()
    assert "One setting of 6" in explorer.inner_text()
    assert explorer.locator("input").count() == 0
    context.close()
