"""Pages as a browser shows them."""

import shutil
import subprocess

import pytest

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")


def rendered(page, script, folder):
    """The document as Chromium has it after the script has run in the page."""
    copy = folder / "copy.html"
    copy.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
             "--window-size=1300,1000", "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", copy.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert "<body>" in done.stdout, done.stderr
    return done.stdout
