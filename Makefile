# make book: build the book.   make test: run every test.   make help: the rest.
#
# Both make the environment .venv when it is missing and bring it up to date when requirements.txt
# or pyproject.toml change. PYTHON=python3.12 chooses another interpreter.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
PY := $(VENV)/bin/python
SITE := _build/html
CHECKOUT := $(abspath .)

# One thread for the linear algebra: the parallelism is over notebooks and tests.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# A kernel that believes it has a live front end would store widgets instead of figures.
unexport JPY_SESSION_NAME

SOURCES := _config.yml _toc.yml pyproject.toml $(wildcard .git/config .git/HEAD) \
	$(shell find book src -type f -not -path '*/.*' -not -path '*/__pycache__/*' -not -path '*.egg-info/*')

.PHONY: book test lint execute course dist pdf report links bench clean distclean help FORCE
.DELETE_ON_ERROR:

book: $(SITE)/.built  ## Build the book; every warning is an error, every notebook is executed
	@echo "The book is built. Open $(CHECKOUT)/$(SITE)/index.html"

$(SITE)/.built: $(VENV)/book.stamp $(SOURCES)
	rm -rf $(SITE) _build/.doctrees _build/jupyter_execute
	$(PY) $(VENV)/bin/jupyter-book build . -W -n --keep-going --all
	touch $@

# Browser tests need the built site, so they share the build of `make book`.
test: $(VENV)/dev.stamp $(SITE)/.built lint  ## Run every test, notebooks and the built site included
	$(PY) -m mypy
	$(PY) -m pytest -p no:randomly -n $(WORKERS) --dist loadfile -o addopts= -q \
		--nbval --nbval-current-env --nbval-sanitize-with tests/nbval-sanitize.cfg \
		$(shell find book -name '*.ipynb' -not -path '*/.*' -not -path 'book/course/*/*')
	$(PY) -m pytest -n $(WORKERS) --dist loadfile -m "slow or not slow"

lint: $(VENV)/dev.stamp  ## Check style and form of the code
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

execute: $(VENV)/book.stamp  ## Execute the notebooks in place, after a change of the package
	$(PY) book/execute.py

course: $(VENV)/dev.stamp  ## Build problem sets, solutions and slides into _build/course
	$(PY) book/course/handouts.py

dist: $(SITE)/.built  ## Pack the site for reading from a folder, without a network
	$(PY) -c "import shutil; print(shutil.make_archive('_build/ibrelu-book', 'zip', '_build', 'html'))"

pdf: $(SITE)/.built $(VENV)/dev.stamp  ## Print the whole book into one PDF beside the site (needs Chromium)
	$(PY) book/pdf.py $(SITE) $(SITE)/ibrelu-book.pdf

report: $(SITE)/.built $(VENV)/dev.stamp  ## Weigh each page and time it on a slow processor (needs Chromium)
	$(PY) book/weigh.py $(SITE) _build/report

links: $(VENV)/book.stamp  ## Check the external links (needs a network)
	$(PY) $(VENV)/bin/jupyter-book build . --builder linkcheck --path-output _build/links

bench: $(VENV)/book.stamp  ## Time the package beside its peers again (installs them; needs a quiet machine)
	$(PY) -m pip install -qq -e ".[bench]"
	$(PY) benchmarks/speed.py

clean:  ## Remove what was built
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis

distclean: clean  ## Remove the environment too
	rm -rf $(VENV)

help:  ## List the commands
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

# An environment belongs to one folder: a copied checkout remakes it.
ifneq ($(shell cat $(VENV)/checkout 2>/dev/null),$(CHECKOUT))
$(VENV)/checkout: FORCE
endif

$(VENV)/checkout:
	@$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), 'Python 3.11 or later is needed'"
	$(PYTHON) -m venv $(VENV)
	@echo "$(CHECKOUT)" > $@

$(VENV)/book.stamp: $(VENV)/checkout requirements.txt pyproject.toml
	@echo "Installing what the book needs into $(VENV): a minute or two."
	$(PY) -m pip install -qq -r requirements.txt
	touch $@

$(VENV)/dev.stamp: $(VENV)/book.stamp
	@echo "Installing what the tests need into $(VENV)."
	$(PY) -m pip install -qq -e ".[dev]"
	touch $@
