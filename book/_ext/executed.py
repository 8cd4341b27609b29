"""Execute the notebooks side by side before their pages are read, and never show a stale output.

MyST-NB executes one notebook after the other, and takes from a cache what it finds there. Here the
cache is filled first, on every core. Its own key is the code of the cells; all else that an output
depends on (the package, the data beside the chapters, the installed versions) names its folder.
So a page that did not change costs nothing, and a change of the package executes every page. A
notebook that fails is left to MyST-NB, which executes it again and reports the error.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.logging import getLogger

import ibrelu

PAGES = {".ipynb", ".md", ".pyc"}


def fingerprint(*folders: Path) -> str:
    """Name the state of these folders, pages apart, and of all that is installed."""
    state = hashlib.sha256(platform.python_version().encode())
    state.update(repr(sorted(f"{d.name} {d.version}" for d in distributions())).encode())
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix not in PAGES):
            state.update(path.relative_to(folder).as_posix().encode())
            state.update(path.read_bytes())
    return state.hexdigest()[:16]


def choose_cache(app: Sphinx, config: Config) -> None:
    """Point MyST-NB to the cache of this state, and forget those of other states."""
    if config.nb_execution_mode != "cache":
        return
    caches = Path(app.outdir).parent / "executed"
    cache = caches / fingerprint(Path(ibrelu.__file__).parent, Path(app.srcdir) / "book")
    for old in caches.glob("*"):
        if old != cache:
            shutil.rmtree(old)
    config.nb_execution_cache_path = str(cache)


def fill_cache(app: Sphinx, env: Any, documents: list[str]) -> None:
    """Execute what is not in the cache yet."""
    if app.config.nb_execution_mode != "cache":
        return
    cache = get_cache(app.config.nb_execution_cache_path)

    def missing(path: Path) -> bool:
        try:
            cache.match_cache_notebook(nbformat.read(path, as_version=4))
        except KeyError:
            return True
        return False

    def run(path: Path) -> Any:
        return single_nb_execution(
            nbformat.read(path, as_version=4),
            cwd=str(path.parent),
            timeout=app.config.nb_execution_timeout,
            allow_errors=False,
        )

    paths = [Path(env.doc2path(document)) for document in documents]
    paths = [path for path in paths if path.suffix == ".ipynb" and missing(path)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, result in zip(paths, pool.map(run, paths), strict=True):
            getLogger(__name__).info("executed %s in %.1f s", path, result.time)
            if result.err is None:
                seconds = {"execution_seconds": result.time}
                bundle = CacheBundleIn(result.nb, str(path), data=seconds)
                cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the steps."""
    app.connect("config-inited", choose_cache)
    app.connect("env-before-read-docs", fill_cache)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
