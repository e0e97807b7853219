"""The README shows what the program prints."""

import os
import re
import subprocess

from support.command_line import PROGRAM


def test_the_example_prints_what_the_readme_shows(checkout, tmp_path):
    readme = (checkout / "README.md").read_text()
    script = re.search(r"`train\.py`:\n\n```python\n(.*?)```", readme, re.DOTALL).group(1)
    words, shown = re.search(r"```\n\$ ebbtide (inspect train.*?)\n(.*?)```", readme, re.DOTALL).groups()
    (tmp_path / "train.py").write_text(script)
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LC_ALL", "LC_CTYPE", "LANG")}
    done = subprocess.run([PROGRAM, *words.split()], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == shown


def test_links_lead_somewhere(checkout):
    for page in (checkout / "README.md", *sorted((checkout / "docs").glob("*.md"))):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
