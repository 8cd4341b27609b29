"""Build what a lecturer hands out, into _build/course: two archives, and the slides.

    python book/course/handouts.py [FOLDER]

The student archive holds the released problem sets and the package; the solution archive is a
course directory for nbgrader. Both come from the same sources, problem-sets/source.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert.exporters import SlidesExporter
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SETS, SLIDES = HERE / "problem-sets", HERE / "slides"
OUT = ROOT / "_build" / "course"
MATHJAX = ("tex-mml-chtml.js", "output/chtml/fonts/woff-v2")
REVEAL = ("LICENSE", "dist/reveal.css", "dist/reveal.js", "dist/theme/white.css")
REVEAL += ("dist/theme/fonts/source-sans-pro", "plugin/notes")


def release(course: Path) -> Path:
    """Copy the sources to `course`, let nbgrader make the students' versions, return their folder.

    Solutions and hidden tests are taken out; nbgrader refuses a set whose cells it cannot grade.
    """
    shutil.copytree(SETS, course, dirs_exist_ok=True)
    # nbgrader starts its own tools by name.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    config = Config()
    config.CourseDirectory.root = str(course)
    config.Exchange.root = str(course / "exchange")
    (course / "exchange").mkdir(mode=0o777)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    for assignment in sorted(path.name for path in (course / "source").iterdir()):
        result = api.generate_assignment(assignment)
        if not result["success"]:
            raise RuntimeError(f"nbgrader could not release {assignment}:\n{result['log']}")
    return course / "release"


def wheel(folder: Path) -> Path:
    """Build the package as one file that students install."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, str(folder), str(ROOT)], check=True)
    return next(folder.glob("ibrelu-*.whl"))


def pack(target: Path, files: dict[str, Path]) -> None:
    """Write an archive whose bytes depend on the files only."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(f"{target.stem}/{name}"), path.read_bytes(), 8)


def notebooks(folder: Path) -> dict[str, Path]:
    """Notebooks below a folder, by their path in it."""
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.ipynb"))}


def archives(out: Path) -> None:
    """Pack the student archive and the solution archive."""
    with tempfile.TemporaryDirectory() as scratch:
        released = release(Path(scratch) / "course")
        package = wheel(Path(scratch))
        needs = Path(scratch) / "requirements.txt"
        needs.write_text(f"./{package.name}\njupyterlab>=4.2\nmatplotlib>=3.9\n")
        extra = {"README.md": SETS / "students.md", needs.name: needs, package.name: package}
        pack(out / "ibrelu-student.zip", {**notebooks(released), **extra})
    sources = {f"source/{name}": path for name, path in notebooks(SETS / "source").items()}
    extra = {"README.md": SETS / "graders.md"}
    extra["nbgrader_config.py"] = SETS / "nbgrader_config.py"
    pack(out / "ibrelu-solutions.zip", {**sources, **extra})


def copy(names: tuple[str, ...], source: Path, target: Path) -> None:
    """Copy files and folders."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        work = shutil.copytree if (source / name).is_dir() else shutil.copy2
        work(source / name, target / name)


def package_folder(name: str) -> Path:
    """Folder of an installed package, whose name may be no identifier."""
    return Path(find_spec(name).origin).parent


def slides(out: Path) -> None:
    """Turn each lecture into a page that needs nothing but its own folder."""
    target = out / "slides"
    target.mkdir()
    copy(MATHJAX, package_folder("sphinx-mathjax-offline") / "static/mathjax", target / "mathjax")
    copy(REVEAL, package_folder("sphinx_revealjs") / "_static/revealjs", target / "reveal")
    shutil.copy2(SLIDES / "template/slides.css", target)
    exporter = SlidesExporter(
        template_name="template",
        extra_template_basedirs=[str(SLIDES)],
        exclude_input=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    for path in sorted(SLIDES.glob("lecture-*.ipynb")):
        lecture = nbformat.read(path, as_version=4)
        NotebookClient(lecture, resources={"metadata": {"path": str(SLIDES)}}).execute()
        (target / f"{path.stem}.html").write_text(exporter.from_notebook_node(lecture)[0], "utf-8")


def main(out: Path = OUT) -> None:
    """Build all of it anew."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    archives(out)
    slides(out)
    print(*sorted(out.glob("*")), sep="\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
